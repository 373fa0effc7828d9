#include "model/training/checkpoint.h"

#include <zlib.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/file_kind.h"
#include "core/files/atomic_file.h"
#include "core/json_fault.h"
#include "core/system_call.h"
#include "core/text.h"
#include "model/data/text_file.h"
#include "model/training/safetensors.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFormat = "assay-checkpoint";
constexpr int kVersion = 1;
constexpr std::string_view kJson = ".json";
constexpr std::string_view kTensors = ".safetensors";
constexpr std::string_view kOtherTensors =
    ".b.safetensors"; // the second name that overwriting alternates with

constexpr std::array<std::pair<at::ScalarType, const char*>, 8> kTypes{{{at::kDouble, "F64"},
                                                                        {at::kFloat, "F32"},
                                                                        {at::kBFloat16, "BF16"},
                                                                        {at::kHalf, "F16"},
                                                                        {at::kLong, "I64"},
                                                                        {at::kInt, "I32"},
                                                                        {at::kByte, "U8"},
                                                                        {at::kBool, "BOOL"}}};

const char* dtype_name(const std::string& tensor, at::ScalarType type) {
  for (const auto& [known, name] : kTypes) {
    if (known == type) return name;
  }
  internal_error(
      "tensor '{}' has type {}, which checkpoints cannot store", tensor, at::toString(type));
}

std::optional<at::ScalarType> scalar_type(const std::string& dtype) {
  for (const auto& [type, name] : kTypes) {
    if (dtype == name) return type;
  }
  return std::nullopt;
}

class Crc32 {
public:
  void add(const void* data, std::size_t size) {
    value_ = crc32_z(value_, static_cast<const Bytef*>(data), size);
  }
  std::string hex() const { return fmt::format("{:08x}", value_); }

private:
  uLong value_ = crc32_z(0, nullptr, 0);
};

std::string to_hex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes)
    fmt::format_to(std::back_inserter(text), "{:02x}", static_cast<unsigned char>(c));
  return text;
}

std::optional<std::string> from_hex(const std::string& text) {
  const auto is_hex = [](unsigned char c) { return std::isxdigit(c) != 0; };
  if (text.size() % 2 != 0 || !std::all_of(text.begin(), text.end(), is_hex)) return std::nullopt;
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

std::string without(std::string text, std::string_view suffix) {
  if (text.ends_with(suffix)) text.resize(text.size() - suffix.size());
  return text;
}

std::string without_extension(const std::string& path) {
  const std::string stem = without(without(path, kOtherTensors), kTensors);
  return stem == path ? without(path, kJson) : stem;
}

// The JSON's description of the file of tensors beside it.
struct TensorFile {
  std::string name;
  std::uint64_t size = 0;
  std::string crc32;
};

nlohmann::json describe(const CheckpointMeta& meta, const TensorFile& tensors) {
  return {{"format", kFormat},
          {"version", kVersion},
          {"step", meta.step},
          {"data",
           {{"epoch", meta.data.epoch},
            {"document", meta.data.document},
            {"offset", meta.data.offset},
            {"batch", meta.data.batch}}},
          {"rng", to_hex(meta.rng)},
          {"tokenizer", meta.tokenizer},
          {"corpus", meta.corpus},
          {"checkpoint_every", meta.checkpoint_every},
          {"tensors", {{"file", tensors.name}, {"size", tensors.size}, {"crc32", tensors.crc32}}},
          {"config", to_json(meta.config)}};
}

struct Described {
  CheckpointMeta meta;
  TensorFile tensors;
};

Result<Described> parse_fields(const nlohmann::json& json) {
  if (!json.is_object() || json.value("format", "") != kFormat)
    return fail("it is not a checkpoint of Assay");
  const int version = json.at("version").get<int>();
  if (version > kVersion) {
    return fail(
        "it has version {}, newer than this build's {}: use a newer Assay", version, kVersion);
  }
  Described described;
  CheckpointMeta& meta = described.meta;
  Result<TrainConfig> config = config_from_json(json.at("config"));
  if (!config) return fail("its config is not this build's: {}", config.error().message);
  meta.config = *config;
  meta.step = json.at("step").get<std::int64_t>();
  const nlohmann::json& data = json.at("data");
  meta.data = {data.at("epoch").get<std::uint64_t>(),
               data.at("document").get<std::uint64_t>(),
               data.at("offset").get<std::uint64_t>(),
               data.value("batch", std::uint64_t{0})};
  const std::optional<std::string> rng = from_hex(json.at("rng").get<std::string>());
  if (!rng) return fail("its random state is not hexadecimal");
  meta.rng = *rng;
  meta.tokenizer = json.at("tokenizer").get<std::string>();
  meta.corpus = json.at("corpus").get<std::string>();
  meta.checkpoint_every = json.value("checkpoint_every", std::int64_t{0});
  const nlohmann::json& tensors = json.at("tensors");
  described.tensors = {tensors.at("file").get<std::string>(),
                       tensors.at("size").get<std::uint64_t>(),
                       tensors.at("crc32").get<std::string>()};
  if (described.tensors.name.empty() || described.tensors.name.find('/') != std::string::npos) {
    return fail("it does not name a file of tensors beside it");
  }
  return described;
}

Result<Described> read_json(const std::string& path) {
  if (const std::string why = why_no_plain_file(path); !why.empty())
    return fail("checkpoint '{}' cannot be read: {}", path, why);
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return fail("checkpoint '{}' cannot be read: {}; check the path", path, system_cause(errno));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (text.empty())
    return fail("checkpoint '{}' cannot be used: it is damaged or truncated: the file is empty",
                path);
  std::string cause;
  try {
    Result<Described> described = parse_fields(nlohmann::json::parse(text));
    if (described) return described;
    cause = described.error().message;
  } catch (const nlohmann::json::exception& error) {
    cause = "it is damaged or truncated: " + json_fault(error);
  }
  return fail("checkpoint '{}' cannot be used: {}", path, cause);
}

// Of a checkpoint that cannot be used: the error, and the one before it in its directory, by name.
Error with_older(const Error& error, const std::string& json) {
  const fs::path directory = fs::path(json).parent_path();
  std::string older;
  std::error_code ignored;
  for (fs::directory_iterator it(directory.empty() ? "." : directory, ignored), end;
       !ignored && it != end;
       it.increment(ignored)) {
    const std::string path = (directory / it->path().filename()).string();
    if (it->path().extension() == kJson && path < json && path > older && read_json(path))
      older = path;
  }
  return older.empty() ? error : fail("{}; an older checkpoint is '{}'", error.message, older);
}

// The JSON of the highest step in a directory. Names are ours (checkpoint-<step>.json,
// zero-padded), so text order is step order; a JSON under another name counts after them.
Result<std::string> newest_in(const std::string& directory) {
  std::string best;
  std::int64_t best_step = -1;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    const std::string path = it->path().string();
    if (it->path().extension() != kJson || it->path().filename().native().starts_with('.'))
      continue;
    const Result<Described> described = read_json(path);
    if (!described) {
      if (it->path().filename().native().starts_with("checkpoint-"))
        return with_older(described.error(), path);
      continue;
    }
    if (described->meta.step > best_step) {
      best = path;
      best_step = described->meta.step;
    }
  }
  if (error) return fail("'{}' cannot be listed: {}", directory, error.message());
  if (best.empty())
    return fail(
        "'{}' contains no checkpoint: give a directory in which `assay train` has saved one",
        directory);
  return best;
}

Result<std::string> find_json(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return newest_in(path);
  const std::string json = without_extension(path) + std::string(kJson);
  if (fs::exists(json, error)) return json;
  if (fs::exists(path, error))
    return fail("'{}' has no '{}' beside it: a checkpoint is the pair of both", path, json);
  return fail("checkpoint '{}' does not exist: give a directory, or the path of its .json", path);
}

// Tensors in contiguous CPU memory, one at a time, so that a model on a GPU is not held twice.
TensorFile
write_tensors(const std::string& path, const CheckpointMeta& meta, const NamedTensors& tensors) {
  std::vector<TensorEntry> entries;
  for (const auto& [name, tensor] : tensors) {
    entries.push_back({name, dtype_name(name, tensor.scalar_type()), tensor.sizes().vec()});
  }
  const std::string header = make_safetensors_header(
      entries, {{"format", "pt"}, {"assay.step", std::to_string(meta.step)}});
  AtomicFile file(path);
  Crc32 crc;
  std::uint64_t size = 0;
  const auto append = [&](const void* data, std::size_t bytes) {
    file.write(data, bytes);
    crc.add(data, bytes);
    size += bytes;
  };
  append(header.data(), header.size());
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor flat = tensor.detach().to(at::kCPU).contiguous();
    if (flat.nbytes() > 0) append(flat.const_data_ptr(), flat.nbytes());
  }
  file.commit();
  return {fs::path(path).filename().string(), size, crc.hex()};
}

// The tensor file that the checkpoint to be overwritten uses, or "" when there is none.
std::string tensors_in_use(const std::string& json_path) {
  std::error_code error;
  if (!fs::exists(json_path, error)) return "";
  const Result<Described> old = read_json(json_path);
  if (!old)
    bad_input("'{}' exists and is not a checkpoint that may be replaced: {}",
              json_path,
              old.error().message);
  return old->tensors.name;
}

Result<NamedTensors> read_tensors(const std::string& path, const TensorFile& expected) {
  std::error_code error;
  const std::uint64_t size = fs::file_size(path, error);
  if (error) return fail("the checkpoint's tensors '{}' cannot be read: {}", path, error.message());
  if (size != expected.size) {
    return fail(
        "'{}' has {} bytes, {} by its checkpoint: it is truncated or from another checkpoint",
        path,
        size,
        expected.size);
  }
  const Result<SafetensorsHeader> header = read_safetensors_header(path);
  if (!header) return header.error();

  const InputFile file(path);
  const Error short_read = fail("'{}' ended while it was read: it is being changed", path);
  Crc32 crc;
  std::string head(header->data_begin, '\0');
  if (file.read_at(0, head.data(), head.size()) != head.size()) return short_read;
  crc.add(head.data(), head.size());
  NamedTensors tensors;
  for (const TensorEntry& entry : header->tensors) {
    const std::optional<at::ScalarType> type = scalar_type(entry.dtype);
    if (!type)
      return fail("'{}': tensor '{}' has type {}, which this build does not use",
                  path,
                  entry.name,
                  entry.dtype);
    at::Tensor tensor = at::empty(entry.shape, *type);
    const std::size_t bytes = entry.end - entry.begin;
    if (bytes > 0) {
      if (file.read_at(header->data_begin + entry.begin, tensor.mutable_data_ptr(), bytes) != bytes)
        return short_read;
      crc.add(tensor.const_data_ptr(), bytes);
    }
    tensors.emplace_back(entry.name, std::move(tensor));
  }
  if (crc.hex() != expected.crc32) {
    return fail("'{}' is damaged, or from another checkpoint: its CRC-32 is {}, not {}",
                path,
                crc.hex(),
                expected.crc32);
  }
  return tensors;
}

std::string target_stem(const std::string& path, std::int64_t step) {
  std::error_code error;
  if (!path.ends_with('/') && !fs::is_directory(path, error)) return without_extension(path);
  return (fs::path(path) / fmt::format("checkpoint-{:08}", step)).string();
}

void make_parent(const std::string& path) {
  const fs::path parent = fs::path(path).parent_path();
  std::error_code error;
  if (!parent.empty()) fs::create_directories(parent, error);
  if (error)
    bad_input("'{}' cannot be made: {}; choose a directory that can be written",
              parent.string(),
              error.message());
}

} // namespace

const at::Tensor* Checkpoint::find(const std::string& name) const {
  for (const auto& [tensor_name, tensor] : tensors) {
    if (tensor_name == name) return &tensor;
  }
  return nullptr;
}

std::string
save_checkpoint(const std::string& path, const CheckpointMeta& meta, const NamedTensors& tensors) {
  const std::string stem = target_stem(path, meta.step);
  const std::string json = stem + std::string(kJson);
  make_parent(stem);
  const std::string old = tensors_in_use(json);
  const bool first_name_taken = old == fs::path(stem).filename().string() + std::string(kTensors);
  const std::string target = stem + std::string(first_name_taken ? kOtherTensors : kTensors);
  const TensorFile written = write_tensors(target, meta, tensors);
  write_file_atomically(json, describe(meta, written).dump(2) + "\n");
  // From here on the new checkpoint is the one; a failure to remove the old tensors costs space
  // only.
  std::error_code ignored;
  if (!old.empty() && old != written.name) fs::remove(fs::path(stem).parent_path() / old, ignored);
  return plain_path(json);
}

Result<Checkpoint> load_checkpoint(const std::string& path) {
  const Result<std::string> json = find_json(path);
  if (!json) return json.error();
  const Result<Described> described = read_json(*json);
  if (!described) return described.error();
  const std::string file = (fs::path(*json).parent_path() / described->tensors.name).string();
  Result<NamedTensors> tensors = read_tensors(file, described->tensors);
  if (!tensors) return with_older(tensors.error(), *json);
  return Checkpoint{described->meta, std::move(*tensors), plain_path(*json)};
}

} // namespace assay
