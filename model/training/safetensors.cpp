#include "model/training/safetensors.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/text.h"

namespace assay {
namespace {

constexpr std::uint64_t kLengthWord = 8;
constexpr std::uint64_t kMaxHeader = 100'000'000; // the reference implementation's limit
constexpr std::uint64_t kAlignment = 8;

struct Dtype {
  const char* name;
  std::uint64_t bytes;
};
constexpr std::array<Dtype, 14> kDtypes{{{"F64", 8},
                                         {"F32", 4},
                                         {"F16", 2},
                                         {"BF16", 2},
                                         {"I64", 8},
                                         {"I32", 4},
                                         {"I16", 2},
                                         {"I8", 1},
                                         {"U8", 1},
                                         {"U16", 2},
                                         {"U32", 4},
                                         {"U64", 8},
                                         {"BOOL", 1},
                                         {"F8_E4M3", 1}}};

std::string little_endian(std::uint64_t value) {
  std::string bytes;
  for (std::uint64_t i = 0; i < kLengthWord; ++i)
    bytes.push_back(static_cast<char>((value >> (8 * i)) & 0xff));
  return bytes;
}

// Bytes of a tensor, or nothing when the product does not fit 63 bits.
Result<std::uint64_t> shape_bytes(const TensorEntry& tensor) {
  constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();
  std::uint64_t bytes = dtype_bytes(tensor.dtype);
  if (bytes == 0)
    return fail(
        "tensor '{}' has the unknown type '{}'", printable(tensor.name), printable(tensor.dtype));
  if (std::count(tensor.shape.begin(), tensor.shape.end(), 0) > 0) return std::uint64_t{0};
  for (const std::int64_t extent : tensor.shape) {
    if (bytes > kMax / static_cast<std::uint64_t>(extent)) {
      return fail("tensor '{}' has an impossible shape", printable(tensor.name));
    }
    bytes *= static_cast<std::uint64_t>(extent);
  }
  return bytes;
}

bool is_extent(const nlohmann::json& value) {
  return value.is_number_unsigned() &&
         value.get<std::uint64_t>() <= std::numeric_limits<std::int64_t>::max();
}

Result<TensorEntry> parse_entry(const std::string& name, const nlohmann::json& json) {
  const Error malformed = fail("the entry of tensor '{}' is malformed", printable(name));
  if (!json.is_object() || json.size() != 3 || !json.contains("dtype") || !json.contains("shape") ||
      !json.contains("data_offsets")) {
    return malformed;
  }
  const nlohmann::json& shape = json["shape"];
  const nlohmann::json& offsets = json["data_offsets"];
  if (!json["dtype"].is_string() || !shape.is_array() || !offsets.is_array() || offsets.size() != 2)
    return malformed;
  if (!std::all_of(shape.begin(), shape.end(), is_extent)) return malformed;
  if (!std::all_of(offsets.begin(), offsets.end(), is_extent)) return malformed;

  TensorEntry tensor{name, json["dtype"], shape, offsets[0], offsets[1]};
  const Result<std::uint64_t> bytes = shape_bytes(tensor);
  if (!bytes) return bytes.error();
  if (tensor.end < tensor.begin || tensor.end - tensor.begin != *bytes) {
    return fail("tensor '{}' does not have the {} bytes of its shape", printable(name), *bytes);
  }
  return tensor;
}

Result<bool> parse_metadata(const nlohmann::json& json, SafetensorsHeader& header) {
  if (!json.is_object()) return fail("its __metadata__ is malformed");
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) return fail("its __metadata__ is malformed");
    header.metadata[key] = value;
  }
  return true;
}

// Tensors must cover the data without holes or overlaps.
Result<bool> check_layout(SafetensorsHeader& header) {
  std::sort(
      header.tensors.begin(), header.tensors.end(), [](const TensorEntry& a, const TensorEntry& b) {
        return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
      });
  std::uint64_t at = 0;
  for (const TensorEntry& tensor : header.tensors) {
    if (tensor.begin != at)
      return fail("the bytes of tensor '{}' do not follow its neighbour's", printable(tensor.name));
    at = tensor.end;
  }
  const std::uint64_t data = header.file_size - header.data_begin;
  if (at != data)
    return fail(
        "its tensors have {} bytes, but the file has {}: it is truncated or damaged", at, data);
  return true;
}

// nlohmann keeps the last of two equal keys; a file with two tensors of one name is refused
// instead.
Result<nlohmann::json> parse_unique(const std::string& text) {
  bool duplicate = false;
  std::vector<std::vector<std::string>> keys;
  const auto watch = [&](int, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    if (event == nlohmann::json::parse_event_t::object_start) keys.emplace_back();
    if (event == nlohmann::json::parse_event_t::object_end) {
      std::sort(keys.back().begin(), keys.back().end());
      duplicate = duplicate ||
                  std::adjacent_find(keys.back().begin(), keys.back().end()) != keys.back().end();
      keys.pop_back();
    }
    if (event == nlohmann::json::parse_event_t::key)
      keys.back().push_back(parsed.get<std::string>());
    return true;
  };
  try {
    nlohmann::json json = nlohmann::json::parse(text, watch);
    if (duplicate) return fail("its header names something twice");
    if (!json.is_object()) return fail("its header is not a JSON object");
    return json;
  } catch (const nlohmann::json::exception&) {
    return fail("its header is not JSON");
  }
}

Result<std::string> read_header_text(std::ifstream& file, SafetensorsHeader& header) {
  file.seekg(0, std::ios::end);
  header.file_size = static_cast<std::uint64_t>(file.tellg());
  file.seekg(0);
  std::array<unsigned char, kLengthWord> word{};
  if (header.file_size < kLengthWord ||
      !file.read(reinterpret_cast<char*>(word.data()), kLengthWord)) {
    return fail("it has {} bytes, too few for a header: it is truncated", header.file_size);
  }
  std::uint64_t length = 0;
  for (std::uint64_t i = 0; i < kLengthWord; ++i) length |= std::uint64_t{word[i]} << (8 * i);
  if (length > kMaxHeader) return fail("its header length of {} bytes is impossible", length);
  if (length > header.file_size - kLengthWord)
    return fail("it ends inside its header: it is truncated");
  header.data_begin = kLengthWord + length;
  std::string text(length, '\0');
  if (!file.read(text.data(), static_cast<std::streamsize>(length)))
    return fail("its header cannot be read");
  return text;
}

Result<SafetensorsHeader> parse_file(std::ifstream& file) {
  SafetensorsHeader header;
  const Result<std::string> text = read_header_text(file, header);
  if (!text) return text.error();
  const Result<nlohmann::json> json = parse_unique(*text);
  if (!json) return json.error();
  for (const auto& [name, value] : json->items()) {
    if (name == "__metadata__") {
      if (const Result<bool> parsed = parse_metadata(value, header); !parsed) return parsed.error();
      continue;
    }
    const Result<TensorEntry> tensor = parse_entry(name, value);
    if (!tensor) return tensor.error();
    header.tensors.push_back(*tensor);
  }
  if (const Result<bool> sound = check_layout(header); !sound) return sound.error();
  return header;
}

} // namespace

std::uint64_t dtype_bytes(const std::string& dtype) {
  for (const Dtype& known : kDtypes) {
    if (dtype == known.name) return known.bytes;
  }
  return 0;
}

std::string make_safetensors_header(std::vector<TensorEntry>& tensors,
                                    const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!metadata.empty()) json["__metadata__"] = metadata;
  std::uint64_t at = 0;
  for (TensorEntry& tensor : tensors) {
    tensor.begin = at;
    at += value_or_throw(shape_bytes(tensor));
    tensor.end = at;
    if (json.contains(tensor.name)) internal_error("two tensors are named '{}'", tensor.name);
    json[tensor.name] = {{"dtype", tensor.dtype},
                         {"shape", tensor.shape},
                         {"data_offsets", {tensor.begin, tensor.end}}};
  }
  std::string text = json.dump();
  while ((kLengthWord + text.size()) % kAlignment != 0) text.push_back(' ');
  return little_endian(text.size()) + text;
}

Result<SafetensorsHeader> read_safetensors_header(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail("'{}' cannot be opened: check the path and its permissions", path);
  Result<SafetensorsHeader> header = parse_file(file);
  if (!header)
    return fail("'{}' is not a whole safetensors file: {}", path, header.error().message);
  return header;
}

} // namespace assay
