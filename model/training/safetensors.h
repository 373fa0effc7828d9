// The safetensors format without LibTorch: 8-byte little-endian header length, JSON header, tensor
// bytes. Format: https://github.com/huggingface/safetensors (README, "Format").
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/result.h"

namespace assay {

struct TensorEntry {
  std::string name;
  std::string dtype; // "F32", "BF16", "F16", "F64", "I64", "I32", "U8", "BOOL" …
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0; // byte range relative to the end of the header
  std::uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;            // in the order of their bytes
  std::map<std::string, std::string> metadata; // "__metadata__"
  std::uint64_t data_begin = 0;                // file offset of the first tensor byte
  std::uint64_t file_size = 0;
};

// Bytes of one element, 0 for a type this build does not know.
std::uint64_t dtype_bytes(const std::string& dtype);

// Lays the tensors out in the given order (begin and end are set) and returns the length word and
// the header, padded with spaces so that the data begin at a multiple of 8.
std::string make_safetensors_header(std::vector<TensorEntry>& tensors,
                                    const std::map<std::string, std::string>& metadata);

// Every check of the format: a header that passes describes tensors that are inside the file, touch
// without holes or overlaps, and have as many bytes as their shapes need.
Result<SafetensorsHeader> read_safetensors_header(const std::string& path);

} // namespace assay
