// A synthetic cell whose levels are the variants of a design.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/statistics/design.h"
#include "experiments/demo/synthetic_ledger.h"

namespace assay::synthetic {

// `effects`: true ln(time ratio) of each step; `interaction`: what each two steps together add.
inline SyntheticCell design_cell(Design design,
                                 const std::vector<std::pair<std::string, double>>& effects,
                                 double interaction) {
  std::vector<std::string> names;
  for (const auto& [name, effect] : effects) names.push_back(name);
  const DesignPlan plan = plan_design(design, names);
  SyntheticCell cell;
  cell.name = cell.optimization = "phases";
  cell.summary = "steps";
  cell.equivalence = "objective";
  cell.design = to_string(design);
  for (const DesignVariant& variant : plan.variants) {
    const auto steps = static_cast<double>(variant.steps.size());
    SyntheticLevel level{.name = variant.name};
    for (const std::size_t step : variant.steps) level.effect += effects[step].second;
    level.effect += interaction * steps * (steps - 1) / 2;
    cell.levels.push_back(std::move(level));
  }
  for (const auto& [from, to] : plan.pairs)
    cell.also_compare.emplace_back(plan.variants[from].name, plan.variants[to].name);
  for (const DesignContrast& contrast : plan.contrasts) {
    ContrastRow row{contrast.name, std::string(to_string(contrast.kind)), {}};
    for (const DesignTerm& term : contrast.terms)
      row.terms.push_back(
          {plan.variants[term.from].name, plan.variants[term.to].name, term.weight});
    cell.contrasts.push_back(std::move(row));
  }
  return cell;
}

} // namespace assay::synthetic
