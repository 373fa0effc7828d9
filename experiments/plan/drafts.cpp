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
      return fmt::format(
          "optimization '{}' needs {}; `--set KEY=VALUE` sets it, or [base] or the cell's `set` "
          "in a matrix",
          row.name,
          need.words);
  return "";
}

using Values = std::vector<ConfigValue>;

// The mistake of a level's configuration, or "".
std::string mistake_of(const Values& base, const MatrixCell& cell, const Level& level) {
  Result<TrainConfig> config = merged_config(base, cell);
  if (!config) return config.error().message;
  level.apply(*config);
  const Result<TrainConfig> resolved = resolve(*config);
  return resolved ? "" : resolved.error().message;
}

// Values that stand for many keys are blamed last: without its preset a training has other
// mistakes.
bool is_general(const ConfigValue& value) {
  return value.key == "preset" || value.key == "family";
}

// The value that is to blame: the first without which the mistake is gone, those of the cell first.
// nullptr where none is: the level's own.
const ConfigValue* blamed_value(const Values& base, const MatrixCell& cell, const Level& level) {
  const std::string mistake = mistake_of(base, cell, level);
  for (const bool general : {false, true})
    for (const bool of_cell : {true, false}) {
      const Values& values = of_cell ? cell.set : base;
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (is_general(values[i]) != general) continue;
        MatrixCell without = cell;
        Values rest = base;
        Values& from = of_cell ? without.set : rest;
        from.erase(from.begin() + static_cast<std::ptrdiff_t>(i));
        if (mistake_of(rest, without, level) != mistake) return &values[i];
      }
    }
  return nullptr;
}

// What is wrong with the level's configuration, with the place of the key that is to blame.
Error blamed(const std::string& message,
             const Values& base,
             const MatrixCell& cell,
             const Level& level) {
  const ConfigValue* value = blamed_value(base, cell, level);
  // A mistake of [base] alone is said once, not for every cell.
  const Result<TrainConfig> of_base = merged_config(base, {});
  if (const Result<TrainConfig> alone = of_base ? resolve(*of_base) : of_base;
      value != nullptr && !alone && alone.error().message == message)
    return fail("{}: {}", value->where, message);
  return fail("{}: cell '{}': {}",
              value != nullptr ? value->where : cell.place({"optimization"}),
              printable(cell.name),
              message);
}

} // namespace

Result<std::vector<Draft>>
drafts(const std::vector<ConfigValue>& base, const MatrixCell& cell, const Optimization& row) {
  const Result<TrainConfig> merged = merged_config(base, cell);
  if (!merged) return merged.error();
  std::vector<Draft> result;
  for (const Level* level : chosen_levels(cell, row)) {
    TrainConfig config = *merged;
    level->apply(config);
    Result<TrainConfig> resolved = resolve(config);
    if (!resolved) return blamed(resolved.error().message, base, cell, *level);
    if (const std::string why = why_unsuitable(row, *resolved); !why.empty())
      return fail("{}: cell '{}': {}", cell.place({"optimization"}), printable(cell.name), why);
    result.push_back({level, *std::move(resolved)});
  }
  return result;
}

} // namespace assay
