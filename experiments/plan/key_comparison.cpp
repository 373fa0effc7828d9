#include "experiments/plan/key_comparison.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "core/text.h"
#include "model/config/key_variants.h"

namespace assay {

namespace {

using nlohmann::json;

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

// One side of a claim about keys, as a JSON object of the values that a plan stores.
json read_key_set(const toml::node& node,
                  const std::string& path,
                  bool testable,
                  TomlProblems& problems) {
  TomlTable side(*node.as_table(), path, problems);
  side.required("set");
  const toml::table* set = side.table("set");
  side.no_other_keys();
  json values = json::object();
  if (set == nullptr) return values;
  if (set->empty()) problems.add(&node, fmt::format("{} names no key", path));
  for (const auto& [name, value] : *set) {
    const std::string key(name.str());
    values[key] = toml_to_json(value);
    if (!testable) continue; // the names of what this build lacks are free
    TrainConfig scratch;
    if (const Result<bool> ok = set_key(scratch, key, values[key]); !ok)
      problems.add(&value, fmt::format("{}: {}", path, ok.error().message));
    else if (!process_keys({key}).empty() || !batch_keys({key}).empty())
      problems.add(&value,
                   fmt::format("{}: no cell compares values of '{}': they cannot differ between "
                               "variants; state that in `unmet`",
                               path,
                               key));
    else
      values[key] = to_json(scratch)[key];
  }
  return values;
}

void check_key_sets(TomlTable& table, const json& from, const json& to) {
  const auto add = [&](const std::string& key, const char* what) {
    table.problems().add(table.node("to"),
                         fmt::format("{} key '{}' {}", table.path(), printable(key), what));
  };
  for (const auto& [key, value] : from.items())
    if (!to.contains(key))
      add(key, "is in `from` alone; name its value in `to` as well");
    else if (to[key] == value)
      add(key, "has one value in `from` and `to`; a condition goes into `requires`");
  for (const auto& [key, value] : to.items())
    if (!from.contains(key)) add(key, "is in `to` alone; name its value in `from` as well");
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
    if (const auto work = batch_keys(keys); !work.empty())
      refuse(fmt::format("another {} gives a step other tokens, so that times of steps say nothing",
                         fmt::join(work, " and ")));
  }
  return problems;
}

void read_key_sets(TomlTable& table, ClaimRow& claim) {
  const toml::node &from = *table.node("from"), &to = *table.node("to");
  const bool testable = claim.unmet.empty();
  const std::size_t before = table.problems().messages.size();
  const json a = read_key_set(from, table.path() + " from", testable, table.problems()),
             b = read_key_set(to, table.path() + " to", testable, table.problems());
  if (table.problems().messages.size() == before) check_key_sets(table, a, b);
  claim.from = a.dump();
  claim.to = b.dump();
}

} // namespace assay
