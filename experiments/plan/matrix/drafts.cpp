#include "experiments/plan/matrix/drafts.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string>

#include "core/text.h"

namespace assay {

namespace {

using Values = std::vector<ConfigValue>;

Result<NamedConfig> merged_config(const Values& base, const MatrixCell& cell) {
  NamedConfig merged;
  TrainConfig& config = merged.config;
  for (const auto* values : {&base, &cell.set})
    for (const ConfigValue& value : *values) {
      if (const Result<bool> ok = set_key(config, value.key, value.value); !ok)
        return fail("{}: {}", value.where, ok.error().message);
      merged.named.insert(value.key);
    }
  config.data = plain_path(config.data); // how a path is written is no part of the plan
  if (!config.package.empty()) config.package = plain_path(config.package);
  if (config.tokenizer != "bytes") {
    config.tokenizer = plain_path(config.tokenizer);
    if (config.tokenizer == "bytes") config.tokenizer = "./bytes"; // a file of this name
  }
  return merged;
}

std::vector<const Level*> chosen_levels(const MatrixCell& cell, const Optimization& row) {
  const Level* reference = cell.reference.empty() ? &row.levels.front() : row.level(cell.reference);
  std::vector<const Level*> chosen{reference};
  for (const Level& level : row.levels) {
    const bool named =
        std::find(cell.levels.begin(), cell.levels.end(), level.name) != cell.levels.end();
    const bool by_default = cell.levels.empty() && !level.wrong && &level > reference;
    if (&level != reference && (named || by_default)) chosen.push_back(&level);
  }
  return chosen;
}

// Why the optimization cannot run with this configuration.
std::vector<std::string> why_unsuitable(const Optimization& row, const TrainConfig& resolved) {
  if (!row.family.empty() && resolved.family != row.family) // which has other keys, too
    return {fmt::format("optimization '{}' needs a model of family '{}', not '{}': set `family` "
                        "and a `preset` of it",
                        row.name,
                        row.family,
                        printable(resolved.family))};
  std::vector<std::string> reasons;
  if (row.needs_ranks && resolved.ranks < 2)
    reasons.push_back(
        fmt::format("optimization '{}' needs several ranks; set `ranks` to 2 or more", row.name));
  for (const Need& need : row.needs)
    if (!meets(resolved, row, need))
      reasons.push_back(
          fmt::format("{}optimization '{}' needs {}; [base] or the cell's `set` in a matrix sets "
                      "it, in `plan` and `run` also `--set base.KEY=VALUE`, else `--set KEY=VALUE`",
                      need.level.empty() ? "" : fmt::format("level '{}' of ", need.level),
                      row.name,
                      need.words.text()));
  return reasons;
}

// Of each level, before resolve().
struct LevelConfigs {
  std::vector<const Level*> levels;
  std::vector<NamedConfig> configs;
  std::vector<Fallback> fallbacks;
};

Result<LevelConfigs>
level_configs(const Values& base, const MatrixCell& cell, const Optimization& row, int capability) {
  const Result<NamedConfig> merged = merged_config(base, cell);
  if (!merged) return merged.error();
  LevelConfigs all;
  const std::set<std::string> switched =
      row.of_table ? switched_keys(row) : std::set<std::string>();
  for (const Level* level : chosen_levels(cell, row)) {
    NamedConfig& own = all.configs.emplace_back(*merged);
    level->apply(own.config);
    own.named.insert(switched.begin(), switched.end());
    own.named.insert(level->keys.begin(), level->keys.end());
    all.levels.push_back(level);
  }
  all.fallbacks = take_fast_defaults(all.configs, row.of_table ? &row : nullptr, capability);
  return all;
}

// What a cell compares, but for the names.
struct Compared {
  const Values& base;
  const MatrixCell& cell;
  const Optimization& row;
  int capability;
};

// The mistake of a level's configuration, or "".
std::string mistake_of(const Compared& compared, const Level& level) {
  const auto& [base, cell, row, capability] = compared;
  const Result<LevelConfigs> all = level_configs(base, cell, row, capability);
  if (!all) return all.error().message;
  const auto place = std::ranges::find(all->levels, &level) - all->levels.begin();
  const Result<TrainConfig> resolved =
      resolve(all->configs[static_cast<std::size_t>(place)].config);
  return resolved ? "" : resolved.error().message;
}

// Values that stand for many keys are blamed last: without its preset a training has other
// mistakes.
bool is_general(const ConfigValue& value) {
  return value.key == "preset" || value.key == "family";
}

// The value that is to blame: the first without which the mistake is gone, those of the cell first.
// nullptr where none is: the level's own.
const ConfigValue* blamed_value(const Compared& compared, const Level& level) {
  const auto& [base, cell, row, capability] = compared;
  const std::string mistake = mistake_of(compared, level);
  for (const bool general : {false, true})
    for (const bool of_cell : {true, false}) {
      const Values& values = of_cell ? cell.set : base;
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (is_general(values[i]) != general) continue;
        MatrixCell without = cell;
        Values rest = base;
        Values& from = of_cell ? without.set : rest;
        from.erase(from.begin() + static_cast<std::ptrdiff_t>(i));
        if (mistake_of({rest, without, row, capability}, level) != mistake) return &values[i];
      }
    }
  return nullptr;
}

std::string mistake_of_base(const Compared& compared) {
  const Result<NamedConfig> merged = merged_config(compared.base, {});
  if (!merged) return merged.error().message;
  std::vector<NamedConfig> alone{*merged};
  (void)take_fast_defaults(alone, nullptr, compared.capability);
  const Result<TrainConfig> resolved = resolve(alone.front().config);
  return resolved ? "" : resolved.error().message;
}

// What is wrong with the level's configuration, with the place of the key that is to blame.
std::string blamed(const std::string& message, const Compared& compared, const Level& level) {
  const MatrixCell& cell = compared.cell;
  const ConfigValue* value = blamed_value(compared, level);
  // A mistake of [base] alone is said once, not for every cell.
  if (value != nullptr && mistake_of_base(compared) == message)
    return fmt::format("{}: {}", value->where, message);
  return fmt::format("{}: cell '{}': {}",
                     value != nullptr ? value->where
                                      : cell.place({"variants/" + level.name, "optimization"}),
                     printable(cell.name),
                     message);
}

} // namespace

Result<Drafts> drafts(const std::vector<ConfigValue>& base,
                      const MatrixCell& cell,
                      const Optimization& row,
                      int capability) {
  const Result<LevelConfigs> all = level_configs(base, cell, row, capability);
  if (!all) return all.error();
  Drafts result{{}, all->fallbacks};
  std::vector<std::string> problems;
  const auto add = [&](const std::string& problem) { // levels share most of theirs
    if (std::ranges::find(problems, problem) == problems.end()) problems.push_back(problem);
  };
  for (std::size_t i = 0; i < all->levels.size(); ++i) {
    const Level& level = *all->levels[i];
    Result<TrainConfig> resolved = resolve(all->configs[i].config);
    if (!resolved) {
      add(blamed(resolved.error().message, {base, cell, row, capability}, level));
      continue;
    }
    for (const std::string& why : why_unsuitable(row, *resolved))
      add(fmt::format(
          "{}: cell '{}': {}", cell.place({"optimization"}), printable(cell.name), why));
    result.levels.push_back({&level, *std::move(resolved)});
  }
  if (!problems.empty()) return fail("{}", fmt::join(problems, "\n"));
  return result;
}

std::optional<TrainConfig> config_of_cell(const std::vector<ConfigValue>& base,
                                          const MatrixCell& cell) {
  Result<NamedConfig> merged = merged_config(base, cell);
  if (!merged) return std::nullopt;
  return std::move(merged->config);
}

} // namespace assay
