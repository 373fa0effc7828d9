#include "ui/platform/capture.h"

#include <zlib.h>

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <utility>

#include "core/files/output_file.h"

namespace {

// stb's own compressor makes files twice as large. What is returned here is freed by stb.
unsigned char* deflate_all(unsigned char* data, int size, int* packed_size, int level) {
  uLongf bytes = ::compressBound(static_cast<uLong>(size));
  auto* const packed = static_cast<unsigned char*>(std::malloc(bytes));
  if (packed == nullptr) return nullptr;
  if (::compress2(packed, &bytes, data, static_cast<uLong>(size), level) != Z_OK) {
    std::free(packed);
    return nullptr;
  }
  *packed_size = static_cast<int>(bytes);
  return packed;
}

} // namespace

#define STBIW_ZLIB_COMPRESS deflate_all
#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#define STBI_WRITE_NO_STDIO
#include <stb/stb_image_write.h>

namespace assay {

void flip(Image& image) {
  const auto row = 3 * static_cast<std::ptrdiff_t>(image.width);
  for (std::ptrdiff_t top = 0, bottom = image.height - 1; top < bottom; ++top, --bottom)
    std::swap_ranges(image.rgb.begin() + top * row,
                     image.rgb.begin() + (top + 1) * row,
                     image.rgb.begin() + bottom * row);
}

std::string encode_png(const Image& image) {
  assert(image.rgb.size() ==
         3 * static_cast<std::size_t>(image.width) * static_cast<std::size_t>(image.height));
  ::stbi_write_png_compression_level = 6;
  ::stbi_write_force_png_filter = 2; // Up: screens have long equal columns
  std::string out;
  const auto append = [](void* to, void* data, int size) {
    static_cast<std::string*>(to)->append(static_cast<const char*>(data),
                                          static_cast<std::size_t>(size));
  };
  if (::stbi_write_png_to_func(
          append, &out, image.width, image.height, 3, image.rgb.data(), 3 * image.width) == 0)
    internal_error("no memory for a picture of {} x {}", image.width, image.height);
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
