#include "experiments/analysis/shape_warnings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "model/config/nsa_shape.h"

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

std::int64_t round_up(std::int64_t value, std::int64_t step) {
  return (value + step - 1) / step * step;
}

void lint_head(const json& config, std::vector<std::string>& lints) {
  const auto head = number(config, "head_dim"), rope = number(config, "rope_dim");
  if (!head || *head <= 0) return;
  const bool latent = word(config, "family") == "deltanet_mla";
  if (latent && (!rope || word(config, "pattern").find('M') == std::string::npos)) return;
  const std::int64_t width = latent ? *head + *rope : *head;
  const std::string name = latent
                               ? fmt::format("head_dim {} + rope_dim {} = {}", *head, *rope, width)
                               : fmt::format("head_dim {}", width);
  if (width > kWidestHead)
    lints.push_back(fmt::format("{}: flash and cuDNN attention on a GPU take at most {}; the step "
                                "falls back to a kernel that stores the scores, or fails",
                                name,
                                kWidestHead));
  else if (width % kWidthStep != 0)
    lints.push_back(
        fmt::format("{} is no multiple of {}: flash and cuDNN attention on a GPU refuse "
                    "it; {} is the next width that they take",
                    name,
                    kWidthStep,
                    round_up(width, kWidthStep)));
}

void lint_vocabulary(const json& config, std::vector<std::string>& lints) {
  const auto vocabulary = number(config, "vocab_size");
  if (!vocabulary || *vocabulary <= 0 || *vocabulary % kTile == 0) return;
  lints.push_back(fmt::format(
      "vocab_size {} is no multiple of {}: {}; {} is",
      *vocabulary,
      *vocabulary % kAligned == 0 ? kTile : kAligned,
      *vocabulary % kAligned == 0
          ? "the last tile of the head's matrix products is partly empty"
          : "the head's matrix products cannot load whole vectors on a GPU and lose their tensor "
            "core kernels",
      round_up(*vocabulary, kTile)));
}

std::optional<NsaShape> sparse_shape(const json& config) {
  const auto block = number(config, "nsa_block"), stride = number(config, "nsa_stride"),
             select = number(config, "nsa_select_block"),
             count = number(config, "nsa_select_count"), window = number(config, "nsa_window");
  for (const auto& value : {block, stride, select, count, window})
    if (!value || *value <= 0) return std::nullopt;
  return NsaShape{*block, *stride, *select, *count, *window};
}

void lint_crossover(const json& config, std::vector<std::string>& lints) {
  if (word(config, "family") != "nsa" || word(config, "nsa_attention") == "dense") return;
  const std::optional<NsaShape> shape = sparse_shape(config);
  const auto length = number(config, "seq_len");
  if (!shape || !length || *length <= 0) return;
  const double sparse = nsa_keys(*shape, *length).total(),
               dense = static_cast<double>(*length + 1) / 2;
  if (sparse < dense) return;
  const std::optional<std::int64_t> crossover = nsa_crossover(*shape);
  lints.push_back(fmt::format(
      "seq_len {}: sparse attention reads {:.0f} keys a query, dense attention {:.0f}: it can only "
      "lose; {}",
      *length,
      sparse,
      dense,
      crossover ? fmt::format("from {} tokens it reads fewer", *crossover)
                : "it reads fewer at no practical length"));
}

struct ShapeLint {
  std::string text;
  std::vector<std::string> cells;
};

void add(std::vector<ShapeLint>& all, const std::string& text, const std::string& cell) {
  auto found =
      std::find_if(all.begin(), all.end(), [&](const ShapeLint& x) { return x.text == text; });
  if (found == all.end()) found = all.insert(all.end(), {text, {}});
  if (std::find(found->cells.begin(), found->cells.end(), cell) == found->cells.end())
    found->cells.push_back(cell);
}

} // namespace

std::vector<std::string> shape_lints(const json& config) {
  std::vector<std::string> lints;
  if (!config.is_object()) return lints;
  lint_head(config, lints);
  lint_vocabulary(config, lints);
  lint_crossover(config, lints);
  return lints;
}

std::vector<std::string> lint_shapes(const LedgerData& plan) {
  std::vector<ShapeLint> shapes;
  for (const VariantRow& variant : plan.variants)
    for (const std::string& text : shape_lints(json::parse(variant.config_json, nullptr, false)))
      add(shapes, text, plan.cell(variant.cell).name);
  std::vector<std::string> result;
  for (const ShapeLint& shape : shapes)
    result.push_back(fmt::format("cell{} {}: {}",
                                 shape.cells.size() == 1 ? "" : "s",
                                 fmt::join(shape.cells, ", "),
                                 shape.text));
  return result;
}

std::vector<std::string> lint_documents(const LedgerData& plan) {
  std::vector<std::string> result;
  for (const ClaimRow& claim : plan.claims) {
    std::istringstream lines(claim.lints);
    for (std::string line; std::getline(lines, line);)
      if (std::find(result.begin(), result.end(), line) == result.end()) result.push_back(line);
  }
  return result;
}

} // namespace assay
