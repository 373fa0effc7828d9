#include "model/config/optimization.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/files/json_difference.h"
#include "model/config/optimizations/rows.h"

namespace assay {

namespace {

// Places in lists and in draft matrices. A row without one follows, in the order of the files.
constexpr std::string_view kListedFirst[] = {"varlen",
                                             "ema_swap",
                                             "bf16_guard",
                                             "delta_inputs",
                                             "gdn_kernel",
                                             "mla_inputs",
                                             "norms",
                                             "ffn_gate",
                                             "epilogue",
                                             "residual16",
                                             "mla_attention",
                                             "loss_head",
                                             "weights16",
                                             "product_choice",
                                             "fp8",
                                             "update_pass",
                                             "grad_scaler",
                                             "step_graph",
                                             "nsa_ranges"};

std::ptrdiff_t place(const Optimization& row) {
  return std::ranges::find(kListedFirst, row.name) - std::begin(kListedFirst);
}

std::vector<Optimization> rows_of_all_files() {
  std::vector<Optimization> rows;
  for (auto* rows_of_file :
       {attention_rows, layer_rows, training_rows, data_rows, rank_rows, planted_rows})
    for (Optimization& row : rows_of_file()) rows.push_back(std::move(row));
  for (const std::string_view name : kListedFirst)
    if (std::ranges::find(rows, name, &Optimization::name) == rows.end())
      internal_error("no row for the place of optimization '{}'", name);
  std::ranges::stable_sort(rows, {}, place);
  return rows;
}

} // namespace

std::vector<Need> always(std::vector<Need> needs) {
  for (Need& need : needs) need.always = true;
  return needs;
}

const Level* Optimization::level(std::string_view level_name) const {
  for (const Level& row : levels)
    if (row.name == level_name) return &row;
  return nullptr;
}

const Registry<Optimization>& optimizations() {
  static const Registry<Optimization> registry("optimization", rows_of_all_files());
  return registry;
}

std::set<std::string> differing_keys(const TrainConfig& a, const TrainConfig& b) {
  return differing_keys(to_json(a), to_json(b));
}

std::set<std::string> switched_keys(const Optimization& row) {
  std::set<std::string> keys;
  for (const Level& level : row.levels) {
    TrainConfig reference, changed;
    row.levels.front().apply(reference);
    level.apply(changed);
    keys.merge(differing_keys(reference, changed));
  }
  return keys;
}

bool has_level(const TrainConfig& config, const Level& level) {
  TrainConfig with = config;
  level.apply(with);
  return differing_keys(config, with).empty();
}

bool meets(const TrainConfig& config, const Optimization& row, const Need& need) {
  if (need.level.empty()) return need.met(config);
  const Level* level = row.level(need.level);
  if (level == nullptr)
    internal_error("optimization '{}' has no level '{}', which needs {}",
                   row.name,
                   need.level,
                   need.words.what);
  return !has_level(config, *level) || need.met(config);
}

std::string_view to_string(Equivalence value) {
  constexpr std::string_view kNames[] = {"bitwise", "math", "statistical", "objective"};
  return kNames[static_cast<int>(value)];
}

std::string_view to_string(Unit value) {
  constexpr std::string_view kNames[] = {"train_step", "evaluation", "token", "pipeline_step"};
  return kNames[static_cast<int>(value)];
}

} // namespace assay
