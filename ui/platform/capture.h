// A picture in memory, and PNG files from it (stb_image_write and zlib).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/result.h"

namespace assay {

struct Image {
  int width = 0, height = 0;
  std::vector<std::uint8_t> rgb; // 3 bytes a pixel, rows from the top
};

void flip(Image& image); // OpenGL's rows start at the bottom

// The bytes of a PNG file: 8 bit RGB, one IDAT chunk, every row with filter Up (RFC 2083).
std::string encode_png(const Image& image);

// Writes the file as an output (core/files/output_file.h); returns its size in bytes.
Result<std::size_t> write_png(const Image& image, const std::string& path);

} // namespace assay
