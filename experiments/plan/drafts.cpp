#include "experiments/plan/drafts.h"

#include <algorithm>
#include <string>

#include "core/text.h"

namespace assay {

namespace {

Result<TrainConfig> merged_config(const std::vector<ConfigValue>& base, const MatrixCell& cell) {
  TrainConfig config;
  for (const auto* values : {&base, &cell.set})
    for (const ConfigValue& value : *values)
      if (const Result<bool> ok = set_key(config, value.key, value.value); !ok)
        return fail("{}: {}", value.where, ok.error().message);
  config.data = plain_path(config.data); // how a path is written is no part of the plan
  if (config.tokenizer != "bytes") {
    config.tokenizer = plain_path(config.tokenizer);
    if (config.tokenizer == "bytes") config.tokenizer = "./bytes"; // a file of this name
  }
  return config;
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

// Why the optimization cannot run with this configuration, or "".
std::string why_unsuitable(const Optimization& row, const TrainConfig& resolved) {
  if (!row.family.empty() && resolved.family != row.family)
    return fmt::format("optimization '{}' needs a model of family '{}', not '{}': set `family` and "
                       "a `preset` of it",
                       row.name,
                       row.family,
                       printable(resolved.family));
  if (row.needs_ranks && resolved.ranks < 2)
    return fmt::format("optimization '{}' needs several ranks; set `ranks` to 2 or more", row.name);
  for (const Need& need : row.needs)
    if (!need.met(resolved))
      return fmt::format("optimization '{}' needs {}: set it under [base] or in the cell's `set`",
                         row.name,
                         need.words);
  return "";
}

Result<TrainConfig>
resolved_config(const Level& level, TrainConfig config, const Optimization& row) {
  level.apply(config);
  Result<TrainConfig> resolved = resolve(config);
  if (!resolved) return resolved;
  if (const std::string why = why_unsuitable(row, *resolved); !why.empty()) return Error{why};
  return resolved;
}

} // namespace

Result<std::vector<Draft>>
drafts(const std::vector<ConfigValue>& base, const MatrixCell& cell, const Optimization& row) {
  const Result<TrainConfig> merged = merged_config(base, cell);
  if (!merged) return merged.error();
  std::vector<Draft> result;
  for (const Level* level : chosen_levels(cell, row)) {
    Result<TrainConfig> config = resolved_config(*level, *merged, row);
    if (!config)
      return fail("{}: cell '{}': {}", cell.where, printable(cell.name), config.error().message);
    result.push_back({level, std::move(*config)});
  }
  return result;
}

} // namespace assay
