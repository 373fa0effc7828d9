#include "experiments/analysis/shape_warnings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/ledger/stored_config.h"
#include "model/config/family_config.h"

namespace assay {

namespace {

using nlohmann::json;

// flash-attn and cuDNN on sm_80 to sm_100: widths of q, k and v.
constexpr std::int64_t kWidthStep = 8, kWidestHead = 256;
constexpr std::int64_t kAligned = 8,
                       kTile = 64; // elements of bf16 that a matrix product loads, tiles

std::optional<std::int64_t> number(const json& config, const char* key) {
  const auto found = config.find(key);
  if (found == config.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<std::int64_t>();
}

std::string word(const json& config, const char* key) {
  const auto found = config.find(key);
  return found != config.end() && found->is_string() ? found->get<std::string>() : "";
}

// The keys of this build; the others keep their defaults.
TrainConfig known_keys(const json& config) {
  TrainConfig known;
  for (const auto& [key, value] : config.items()) (void)set_key(known, key, value);
  return known;
}

std::int64_t round_up(std::int64_t value, std::int64_t step) {
  return (value + step - 1) / step * step;
}

void warn_of_head(const json& json_config, std::vector<std::string>& warnings) {
  const FamilyConfig* family = family_configs().find(word(json_config, "family"));
  if (family == nullptr) return;
  const TrainConfig config = known_keys(json_config);
  for (const LayerKind& kind : family->layers) {
    if (kind.head_width == nullptr || config.pattern.find(kind.letter) == std::string::npos)
      continue;
    const HeadWidth head = kind.head_width(config);
    if (head.width > kWidestHead)
      warnings.push_back(fmt::format("{}: flash and cuDNN attention on a GPU take at most {}; the "
                                     "step falls back to a kernel that stores the scores, or fails",
                                     head.words,
                                     kWidestHead));
    else if (head.width % kWidthStep != 0)
      warnings.push_back(
          fmt::format("{} is not a multiple of {}: flash and cuDNN attention on a GPU refuse "
                      "it; {} is the next width that they take",
                      head.words,
                      kWidthStep,
                      round_up(head.width, kWidthStep)));
  }
}

void warn_of_vocabulary(const json& config, std::vector<std::string>& warnings) {
  const auto vocabulary = number(config, "vocab_size");
  if (!vocabulary || *vocabulary <= 0 || *vocabulary % kTile == 0) return;
  warnings.push_back(fmt::format(
      "vocab_size {} is not a multiple of {}: {}; {} is",
      *vocabulary,
      *vocabulary % kAligned == 0 ? kTile : kAligned,
      *vocabulary % kAligned == 0
          ? "the last tile of the head's matrix products is partly empty"
          : "the head's matrix products cannot load whole vectors on a GPU and lose their tensor "
            "core kernels",
      round_up(*vocabulary, kTile)));
}

// Blocks that some layer selects, if it selects any.
std::optional<NsaShape> sparse_shape(const json& json_config) {
  const FamilyConfig* family = family_configs().find(word(json_config, "family"));
  if (family == nullptr) return std::nullopt;
  const TrainConfig config = known_keys(json_config);
  for (const LayerKind& kind : family->layers) {
    if (config.pattern.find(kind.letter) == std::string::npos) continue;
    const std::optional<NsaShape> shape = kind.layouts(config).blocks;
    if (shape && shape->block > 0 && shape->stride > 0 && shape->select_block > 0 &&
        shape->select_count > 0 && shape->window > 0)
      return shape;
  }
  return std::nullopt;
}

void warn_of_crossover(const json& config, std::vector<std::string>& warnings) {
  const std::optional<NsaShape> shape = sparse_shape(config);
  const auto length = number(config, "seq_len");
  if (!shape || !length || *length <= 0) return;
  const double sparse = nsa_keys(*shape, *length).total(),
               dense = static_cast<double>(*length + 1) / 2;
  if (sparse < dense) return;
  const std::optional<std::int64_t> crossover = nsa_crossover(*shape);
  warnings.push_back(fmt::format(
      "at seq_len {} sparse attention reads more keys per query than dense attention ({:.0f}, not "
      "{:.0f}), so it cannot be faster; {}",
      *length,
      sparse,
      dense,
      crossover ? fmt::format("from seq_len {} it reads fewer", *crossover)
                : "it reads fewer at no practical length"));
}

struct ShapeWarning {
  std::string text;
  std::vector<std::string> cells;
};

void add(std::vector<ShapeWarning>& all, const std::string& text, const std::string& cell) {
  auto found =
      std::find_if(all.begin(), all.end(), [&](const ShapeWarning& x) { return x.text == text; });
  if (found == all.end()) found = all.insert(all.end(), {text, {}});
  if (std::find(found->cells.begin(), found->cells.end(), cell) == found->cells.end())
    found->cells.push_back(cell);
}

} // namespace

std::vector<std::string> shape_warnings(const json& config) {
  std::vector<std::string> warnings;
  if (!config.is_object()) return warnings;
  warn_of_head(config, warnings);
  warn_of_vocabulary(config, warnings);
  warn_of_crossover(config, warnings);
  return warnings;
}

std::vector<std::string> shape_warnings(const LedgerData& plan) {
  std::vector<ShapeWarning> shapes;
  for (const VariantRow& variant : plan.variants)
    for (const std::string& text : shape_warnings(stored_config(variant.config_json)))
      add(shapes, text, plan.cell(variant.cell).name);
  std::vector<std::string> result;
  for (const ShapeWarning& shape : shapes)
    result.push_back(fmt::format("cell{} {}: {}",
                                 shape.cells.size() == 1 ? "" : "s",
                                 fmt::join(shape.cells, ", "),
                                 shape.text));
  return result;
}

std::vector<std::string> source_errors(const LedgerData& plan) {
  std::vector<std::string> result;
  for (const ClaimRow& claim : plan.claims) {
    for (const std::string& error : claim.source_errors)
      if (std::find(result.begin(), result.end(), error) == result.end()) result.push_back(error);
  }
  return result;
}

} // namespace assay
