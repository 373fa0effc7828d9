#include "experiments/plan/key_comparison.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/text.h"
#include "model/config/key_variants.h"

namespace assay {

namespace {

Level level_of(const std::string& name, const std::vector<ConfigValue>& set) {
  std::vector<std::string> keys;
  for (const ConfigValue& value : set)
    keys.push_back(fmt::format("{} = {}", value.key, value.value.dump()));
  const auto apply = [set](TrainConfig& config) {
    for (const ConfigValue& value : set)
      (void)value_or_throw(set_key(config, value.key, value.value));
  };
  return {name, keys.empty() ? "as the cell" : fmt::format("{}", fmt::join(keys, ", ")), apply, ""};
}

std::string wrong_key(const MatrixCell& cell, const std::string& key, const std::string& message) {
  return fmt::format("{}: cell '{}': {}", cell.place({key}), printable(cell.name), message);
}

std::vector<std::string> names_of(const std::vector<MatrixVariant>& sides) {
  std::vector<std::string> names;
  for (const MatrixVariant& side : sides) names.push_back(side.name);
  return names;
}

Optimization row_for(const MatrixCell& cell, std::vector<Level> levels) {
  return key_row(cell.name,
                 cell.expect.value_or(Equivalence::Objective),
                 cell.unit.value_or(Unit::TrainStep),
                 std::move(levels));
}

// What two steps both set has no value where both are on; "" where there is nothing.
std::string shared_key(const MatrixCell& cell) {
  std::map<std::string, std::string> set_by;
  for (const MatrixVariant& step : cell.steps)
    for (const ConfigValue& value : step.set)
      if (const auto [first, added] = set_by.try_emplace(value.key, step.name); !added)
        return fmt::format("{}: cell '{}': the steps '{}' and '{}' both set '{}'; a variant with "
                           "both needs one value, so make them one step",
                           value.where,
                           printable(cell.name),
                           printable(first->second),
                           printable(step.name),
                           value.key);
  return "";
}

Result<Optimization> row_of_design(const MatrixCell& cell) {
  if (const std::string shared = shared_key(cell); !shared.empty()) return fail("{}", shared);
  const DesignPlan plan = plan_design(*cell.design, names_of(cell.steps));
  std::vector<Level> levels;
  for (const DesignVariant& variant : plan.variants) {
    std::vector<ConfigValue> set;
    for (const std::size_t step : variant.steps)
      set.insert(set.end(), cell.steps[step].set.begin(), cell.steps[step].set.end());
    levels.push_back(level_of(variant.name, set));
  }
  Optimization row = row_for(cell, std::move(levels));
  row.summary =
      fmt::format("{} of {}", to_string(*cell.design), fmt::join(names_of(cell.steps), ", "));
  row.design = cell.design;
  row.contrasts = plan.contrasts;
  for (const auto& [from, to] : plan.pairs)
    row.also_compare.emplace_back(plan.variants[from].name, plan.variants[to].name);
  return row;
}

// Two sides of the cell, and what the file calls their difference.
struct Difference {
  const Draft *from, *to;
  std::string place, name; // "steps/amp", "step 'amp'"
};

std::vector<Difference> differences_of(const MatrixCell& cell, const std::vector<Draft>& all) {
  std::vector<Difference> found;
  if (!cell.design) {
    for (auto draft = all.begin() + 1; draft != all.end(); ++draft)
      found.push_back({&all.front(),
                       &*draft,
                       "variants/" + draft->level->name,
                       fmt::format("variant '{}'", printable(draft->level->name))});
    return found;
  }
  // One pair for each step: the first whose sides differ by that step alone.
  const DesignPlan plan = plan_design(*cell.design, names_of(cell.steps));
  std::set<std::size_t> seen;
  for (const auto& [from, to] : plan.pairs) {
    std::vector<std::size_t> added;
    std::ranges::set_difference(
        plan.variants[to].steps, plan.variants[from].steps, std::back_inserter(added));
    if (added.size() != 1 || !seen.insert(added.front()).second) continue;
    const std::string& name = cell.steps[added.front()].name;
    found.push_back(
        {&all[from], &all[to], "steps/" + name, fmt::format("step '{}'", printable(name))});
  }
  return found;
}

} // namespace

Result<Optimization> row_of_variants(const MatrixCell& cell) {
  const auto refuse = [&](const std::string& key, const std::string& message) {
    return fail("{}", wrong_key(cell, key, message));
  };
  if (optimizations().find(cell.name) != nullptr)
    return refuse("name", "an optimization has this name; give the comparison another one");
  if (cell.design) return row_of_design(cell);
  std::vector<Level> levels;
  for (const MatrixVariant& variant : cell.variants)
    levels.push_back(level_of(variant.name, variant.set));
  if (!cell.reference.empty()) {
    const auto reference = std::ranges::find(levels, cell.reference, &Level::name);
    const std::vector<std::string> names = names_of(cell.variants);
    if (reference == levels.end())
      return refuse("reference",
                    fmt::format("no variant is named '{}'{}; it has: {}",
                                printable(cell.reference),
                                did_you_mean(cell.reference, names),
                                fmt::join(names, ", ")));
    std::rotate(levels.begin(), reference, reference + 1);
  }
  return row_for(cell, std::move(levels));
}

std::vector<std::string> wrong_variants(const MatrixCell& cell, const std::vector<Draft>& all) {
  std::vector<std::string> problems;
  for (const Difference& difference : differences_of(cell, all)) {
    const auto refuse = [&](const std::string& message) {
      problems.push_back(wrong_key(cell, difference.place, difference.name + ": " + message));
    };
    const std::set<std::string> keys =
        differing_keys(difference.from->config, difference.to->config);
    if (keys.empty())
      refuse(cell.design ? "changes nothing; give it another key or value"
                         : fmt::format("trains exactly as the baseline '{}' does; give it another "
                                       "key",
                                       difference.from->level->name));
    if (const auto one = process_keys(keys); !one.empty())
      refuse(fmt::format("{} cannot differ within a process, and this build compares variants in "
                         "one process; measure two matrices instead",
                         fmt::join(one, " and ")));
    if (const auto work = batch_keys(keys); !work.empty())
      refuse(fmt::format("another {} gives a step other tokens, so that times of steps say nothing",
                         fmt::join(work, " and ")));
  }
  return problems;
}

} // namespace assay
