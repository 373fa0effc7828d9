#include "ui/platform/capture.h"

#include <algorithm>

#include <zlib.h>

#include <cassert>
#include <string_view>
#include <utility>

#include "core/files/output_file.h"

namespace assay {
namespace {

void put_u32(std::string& out, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>((value >> shift) & 0xff);
}

// length, type, data, CRC of type and data
void print_chunk(std::string& out, std::string_view type, const std::string& data) {
  put_u32(out, static_cast<std::uint32_t>(data.size()));
  const std::size_t start = out.size();
  out += type;
  out += data;
  put_u32(out,
          static_cast<std::uint32_t>(::crc32(0,
                                             reinterpret_cast<const Bytef*>(out.data() + start),
                                             static_cast<uInt>(out.size() - start))));
}

// Filter 2 (Up): each byte less the one above; screens have long equal columns.
std::string filter_rows(const Image& image) {
  const std::size_t row_bytes = static_cast<std::size_t>(image.width) * 3;
  std::string rows;
  rows.reserve((row_bytes + 1) * static_cast<std::size_t>(image.height));
  for (std::size_t y = 0; y < static_cast<std::size_t>(image.height); ++y) {
    rows += '\2';
    const std::uint8_t* const row = image.rgb.data() + y * row_bytes;
    for (std::size_t x = 0; x < row_bytes; ++x)
      rows += static_cast<char>(row[x] - (y == 0 ? 0 : *(row + x - row_bytes)));
  }
  return rows;
}

std::string deflate_all(const std::string& bytes) {
  uLongf size = ::compressBound(bytes.size());
  std::string packed(size, '\0');
  const int status = ::compress2(reinterpret_cast<Bytef*>(packed.data()),
                                 &size,
                                 reinterpret_cast<const Bytef*>(bytes.data()),
                                 bytes.size(),
                                 6);
  if (status != Z_OK)
    internal_error("zlib could not compress {} bytes of a picture: {}", bytes.size(), status);
  packed.resize(size);
  return packed;
}

} // namespace

void flip(Image& image) {
  const auto row = static_cast<std::ptrdiff_t>(3 * image.width);
  for (std::ptrdiff_t top = 0, bottom = image.height - 1; top < bottom; ++top, --bottom)
    std::swap_ranges(image.rgb.begin() + top * row,
                     image.rgb.begin() + (top + 1) * row,
                     image.rgb.begin() + bottom * row);
}

std::string encode_png(const Image& image) {
  assert(image.rgb.size() ==
         3 * static_cast<std::size_t>(image.width) * static_cast<std::size_t>(image.height));
  std::string out("\x89PNG\r\n\x1a\n", 8);
  std::string header;
  put_u32(header, static_cast<std::uint32_t>(image.width));
  put_u32(header, static_cast<std::uint32_t>(image.height));
  header += std::string("\x08\x02\x00\x00\x00",
                        5); // 8 bits, RGB, deflate, filters per row, not interlaced
  print_chunk(out, "IHDR", header);
  print_chunk(out, "IDAT", deflate_all(filter_rows(image)));
  print_chunk(out, "IEND", "");
  return out;
}

Result<std::size_t> write_png(const Image& image, const std::string& path) {
  std::string bytes = encode_png(image);
  const std::size_t size = bytes.size();
  try {
    OutputFile file(path);
    file.write(std::move(bytes));
    file.finish();
  } catch (const Failure& failure) {
    return Error{failure.what()};
  }
  return size;
}

} // namespace assay
