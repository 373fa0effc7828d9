#include "experiments/analysis/compare.h"

#include <cmath>

namespace assay {

std::vector<VariantPair> pairs_to_compare(const CellView& cell) {
  std::vector<VariantPair> result;
  if (cell.baseline)
    for (const VariantRow* level : cell.levels) result.push_back({cell.baseline, level, true});
  if (!cell.optimization) return result;
  const auto by_level = [&](const std::string& name) -> const VariantRow* {
    for (const VariantRow* level : cell.levels)
      if (level->level == name) return level;
    return nullptr; // the baseline is compared with every level above
  };
  for (const auto& [from, to] : cell.optimization->also_compare) {
    const VariantRow* a = by_level(from);
    const VariantRow* b = by_level(to);
    if (a && b) result.push_back({a, b, false});
  }
  return result;
}

Comparison compare(const CellView& cell, const VariantPair& variants, const Levels& levels) {
  const double judged_alpha = levels.judged_alpha;
  const auto& [a, b, against_reference] = variants;
  Comparison result;
  result.a = a->name;
  result.b = b->name;
  result.a_id = a->id;
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
  result.memory = memory_effect(cell, *a, *b, judged_alpha);
  result.evidence = gather_evidence(cell, *a, *b);
  if (b->role == Role::Control) return result;
  result.loss = loss_test(cell, *a, *b, judged_alpha, levels.loss_alpha);
  if (cell.optimization)
    judge_by_training(result.evidence, result.pairs, result.loss, cell.equivalence());
  return result;
}

std::optional<ControlReport> compare_control(const CellView& cell, const Levels& levels) {
  if (!cell.baseline || !cell.control) return std::nullopt;
  ControlReport control;
  control.comparison = compare(cell, {cell.baseline, cell.control, true}, levels);
  if (const auto& effect = control.comparison.effect;
      effect && effect->launches.size() >= static_cast<std::size_t>(kProvisionalLaunches))
    control.alarm = *effect->theta.p < kControlAlarmP &&
                    std::abs(std::expm1(effect->theta.value)) > cell.spec->sesoi;
  return control;
}

} // namespace assay
