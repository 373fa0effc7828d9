// PNG files: a reader of our own (chunks, CRC, inflate, filters) gets every pixel back; bad paths
// are errors.
#include "ui/platform/capture.h"

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

namespace assay {
namespace capture_test {

namespace fs = std::filesystem;

std::uint32_t u32(const std::string& bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i)
    value = value << 8 | static_cast<std::uint8_t>(bytes.at(at + i));
  return value;
}

// The data of the chunk of this type, after its CRC has been checked; the chunks must fill the file
// exactly.
std::string chunk(const std::string& png, const std::string& type) {
  std::string found;
  std::size_t at = 8;
  while (at < png.size()) {
    const std::uint32_t size = u32(png, at);
    const std::string body = png.substr(at + 4, 4 + size);
    const auto crc =
        ::crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
    EXPECT_EQ(crc, u32(png, at + 8 + size)) << type;
    if (body.substr(0, 4) == type) found = body.substr(4);
    at += 12 + size;
  }
  EXPECT_EQ(at, png.size());
  return found;
}

Image decode(const std::string& png) {
  const std::string header = chunk(png, "IHDR");
  Image image{static_cast<int>(u32(header, 0)), static_cast<int>(u32(header, 4)), {}};
  const std::size_t row = static_cast<std::size_t>(image.width) * 3;
  std::string raw((row + 1) * static_cast<std::size_t>(image.height), '\0');
  const std::string packed = chunk(png, "IDAT");
  uLongf size = raw.size();
  EXPECT_EQ(::uncompress(reinterpret_cast<Bytef*>(raw.data()),
                         &size,
                         reinterpret_cast<const Bytef*>(packed.data()),
                         packed.size()),
            Z_OK);
  EXPECT_EQ(size, raw.size());
  for (std::size_t y = 0; y < static_cast<std::size_t>(image.height); ++y) {
    EXPECT_EQ(raw[y * (row + 1)], 2); // filter Up
    for (std::size_t x = 0; x < row; ++x) {
      const int above = y == 0 ? 0 : image.rgb[(y - 1) * row + x];
      image.rgb.push_back(
          static_cast<std::uint8_t>(static_cast<std::uint8_t>(raw[y * (row + 1) + 1 + x]) + above));
    }
  }
  return image;
}

Image noise(int width, int height) {
  std::mt19937 random(7);
  Image image{width, height, {}};
  for (int i = 0; i < 3 * width * height; ++i)
    image.rgb.push_back(static_cast<std::uint8_t>(random()));
  return image;
}

TEST(Png, EveryPixelComesBack) {
  for (const auto& [width, height] : {std::pair{1, 1}, {7, 3}, {200, 129}}) {
    const Image image = noise(width, height);
    const std::string png = encode_png(image);
    EXPECT_EQ(png.substr(0, 8), "\x89PNG\r\n\x1a\n");
    const Image back = decode(png);
    EXPECT_EQ(back.width, width);
    EXPECT_EQ(back.height, height);
    EXPECT_EQ(back.rgb, image.rgb);
    EXPECT_EQ(png.substr(png.size() - 12), std::string("\0\0\0\0IEND\xae\x42\x60\x82", 12));
  }
}

TEST(Png, IsWrittenWholeAndLeavesNothingBeside) {
  const fs::path folder = fs::temp_directory_path() / ("assay_png_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  const Image image = noise(20, 10);
  const Result<std::size_t> size = write_png(image, (folder / "a.png").string());
  ASSERT_TRUE(size) << size.error().message;
  std::ifstream file(folder / "a.png", std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  EXPECT_EQ(bytes.size(), *size);
  EXPECT_EQ(bytes, encode_png(image));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1);
  fs::remove_all(folder);
}

TEST(Png, AnUnwritablePathIsAnErrorThatNamesIt) {
  const Result<std::size_t> size = write_png(noise(2, 2), "/nonexistent/a.png");
  ASSERT_FALSE(size);
  EXPECT_EQ(size.error().message,
            "cannot write /nonexistent/a.png: No such file or directory; make its directory first, "
            "or choose another place");
}

} // namespace capture_test
} // namespace assay
