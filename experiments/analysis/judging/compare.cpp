#include "experiments/analysis/judging/compare.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/ledger/stored_config.h"

namespace assay {

const VariantRow* variant_of_level(const CellView& cell, const std::string& level) {
  if (cell.baseline && cell.baseline->level == level) return cell.baseline;
  const auto found = std::ranges::find(cell.levels, level, &VariantRow::level);
  return found == cell.levels.end() ? nullptr : *found;
}

std::vector<VariantPair> pairs_to_compare(const CellView& cell) {
  const bool has_design = cell.optimization && !cell.optimization->design.empty();
  std::vector<VariantPair> result;
  if (cell.baseline && !has_design)
    for (const VariantRow* level : cell.levels) result.push_back({cell.baseline, level, true});
  if (!cell.optimization) return result;
  for (const auto& [from, to] : cell.optimization->also_compare) {
    const VariantRow* a = variant_of_level(cell, from);
    const VariantRow* b = variant_of_level(cell, to);
    const bool listed_above = !has_design && (a == cell.baseline || b == cell.baseline);
    if (a && b && !listed_above) result.push_back({a, b, a == cell.baseline});
  }
  return result;
}

namespace {

double times_ranks(const CellView& cell, const VariantRow& a, const VariantRow& b) {
  if (cell.cell->unit != "token") return 0;
  const auto ranks = [](const VariantRow& variant) {
    return stored_config(variant.config_json).value("ranks", 1.0);
  };
  return ranks(a) == ranks(b) ? 0 : ranks(b) / ranks(a);
}

} // namespace

Comparison compare(const CellView& cell, const VariantPair& variants, const Levels& levels) {
  const double judged_alpha = levels.judged_alpha;
  const auto& [a, b, against_reference] = variants;
  Comparison result;
  result.a = a->name;
  result.b = b->name;
  result.a_id = a->id;
  result.a_config_json = a->config_json;
  result.b_id = b->id;
  result.against_reference = against_reference;
  result.pairs = collect_pairs(cell, *a, *b);
  result.a_ranks = rank_times(cell, *a);
  result.b_ranks = rank_times(cell, *b);
  EffectOptions options{judged_alpha, cell.spec->power, cell.spec->sesoi, false};
  result.effect = estimate_effect(result.pairs, options);
  result.device = device_effect(result.pairs, options);
  result.position = position_effect(result.pairs, judged_alpha);
  if (result.effect)
    result.end_to_end = end_to_end(cell, result.pairs, *result.effect, judged_alpha);
  options.with_excluded = true;
  result.effect_all = estimate_effect(result.pairs, options);
  result.times_ranks = times_ranks(cell, *a, *b);
  result.data_wait = data_wait(cell, *a, *b);
  result.a_first = first_step(cell, *a);
  result.b_first = first_step(cell, *b);
  result.memory = memory_effect(cell, *a, *b, judged_alpha);
  result.energy = energy_effect(cell, *a, *b, judged_alpha);
  result.evidence = gather_evidence(cell, *a, *b);
  if (b->role == Role::Control) return result;
  result.loss = loss_test(cell, *a, *b, judged_alpha, levels.loss_alpha);
  result.time_to_loss = time_to_loss(cell, *a, *b, result.effect, judged_alpha);
  if (cell.optimization)
    judge_by_training(result.evidence, result.pairs, result.loss, cell.equivalence());
  return result;
}

namespace {

std::optional<NoAlarm> why_no_alarm(const Effect& effect, double sesoi) {
  if (effect.launches.size() < static_cast<std::size_t>(kProvisionalLaunches))
    return NoAlarm::FewLaunches;
  if (*effect.theta.p >= kControlAlarmP) return NoAlarm::Chance;
  if (std::abs(std::expm1(effect.theta.value)) <= sesoi) return NoAlarm::SmallEffect;
  return std::nullopt;
}

} // namespace

std::optional<ControlReport> compare_control(const CellView& cell, const Levels& levels) {
  if (!cell.baseline || !cell.control) return std::nullopt;
  ControlReport control;
  control.comparison = compare(cell, {cell.baseline, cell.control, true}, levels);
  if (const auto& effect = control.comparison.effect) {
    control.no_alarm = why_no_alarm(*effect, cell.spec->sesoi);
    control.alarm = !control.no_alarm;
  }
  return control;
}

} // namespace assay
