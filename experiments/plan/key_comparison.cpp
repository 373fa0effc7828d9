#include "experiments/plan/key_comparison.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "core/text.h"
#include "model/config/key_variants.h"

namespace assay {

namespace {

Level level_of(const MatrixVariant& variant) {
  std::vector<std::string> keys;
  for (const ConfigValue& value : variant.set)
    keys.push_back(fmt::format("{} = {}", value.key, value.value.dump()));
  const auto apply = [set = variant.set](TrainConfig& config) {
    for (const ConfigValue& value : set)
      (void)value_or_throw(set_key(config, value.key, value.value));
  };
  return {variant.name,
          keys.empty() ? "as the cell" : fmt::format("{}", fmt::join(keys, ", ")),
          apply,
          ""};
}

std::string wrong_key(const MatrixCell& cell, const std::string& key, const std::string& message) {
  return fmt::format("{}: cell '{}': {}", cell.place({key}), printable(cell.name), message);
}

} // namespace

Result<Optimization> row_of_variants(const MatrixCell& cell) {
  const auto refuse = [&](const std::string& key, const std::string& message) {
    return fail("{}", wrong_key(cell, key, message));
  };
  if (optimizations().find(cell.name) != nullptr)
    return refuse("name", "an optimization has this name; give the comparison another one");
  std::vector<Level> levels;
  std::vector<std::string> names;
  for (const MatrixVariant& variant : cell.variants) {
    levels.push_back(level_of(variant));
    names.push_back(variant.name);
  }
  if (!cell.reference.empty()) {
    const auto reference = std::ranges::find(levels, cell.reference, &Level::name);
    if (reference == levels.end())
      return refuse("reference",
                    fmt::format("no variant is named '{}'{}; it has: {}",
                                printable(cell.reference),
                                did_you_mean(cell.reference, names),
                                fmt::join(names, ", ")));
    std::rotate(levels.begin(), reference, reference + 1);
  }
  return key_row(cell.name,
                 cell.expect.value_or(Equivalence::Objective),
                 cell.unit.value_or(Unit::TrainStep),
                 std::move(levels));
}

std::vector<std::string> wrong_variants(const MatrixCell& cell, const std::vector<Draft>& all) {
  std::vector<std::string> problems;
  const Draft& baseline = all.front();
  for (auto draft = all.begin() + 1; draft != all.end(); ++draft) {
    const std::string& name = draft->level->name;
    const auto refuse = [&](const std::string& message) {
      problems.push_back(wrong_key(
          cell, "variants/" + name, fmt::format("variant '{}': {}", printable(name), message)));
    };
    const std::set<std::string> keys = differing_keys(baseline.config, draft->config);
    if (keys.empty())
      refuse(fmt::format("trains exactly as the baseline '{}' does; give it another key",
                         baseline.level->name));
    if (const auto one = process_keys(keys); !one.empty())
      refuse(fmt::format("{} cannot differ within a process, and this build compares variants in "
                         "one process; measure two matrices instead",
                         fmt::join(one, " and ")));
    if (const auto work = batch_keys(keys);
        !work.empty() && cell.unit.value_or(Unit::TrainStep) != Unit::Token)
      refuse(
          fmt::format("another {} gives a step other tokens, so that times of steps say nothing; "
                      "unit = \"token\" compares times per token",
                      fmt::join(work, " and ")));
  }
  return problems;
}

} // namespace assay
