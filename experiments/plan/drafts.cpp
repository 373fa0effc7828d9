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

// The words of a message that may be keys: "key 'rope_dim' must be even" has key, rope_dim, must, …
std::vector<std::string> words_of(const std::string& message) {
  std::vector<std::string> words(1);
  for (const char c : message)
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_')
      words.back() += c;
    else if (!words.back().empty())
      words.emplace_back();
  return words;
}

// Where the matrix writes the key that `message` blames, its first one; "" where it writes none.
std::string blamed_place(const std::string& message,
                         const std::vector<ConfigValue>& base,
                         const std::vector<ConfigValue>& set) {
  for (const std::string& word : words_of(message))
    for (const auto* values : {&set, &base})
      for (const ConfigValue& value : *values)
        if (value.key == word) return value.where;
  return "";
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

// What is wrong with the level's configuration, with the place of the key that is to blame.
Error blamed(const std::string& message,
             const std::vector<ConfigValue>& base,
             const MatrixCell& cell) {
  // Said once, not for every cell.
  const Result<TrainConfig> of_base = merged_config(base, {});
  if (const Result<TrainConfig> alone = of_base ? resolve(*of_base) : of_base;
      !alone && alone.error().message == message)
    if (const std::string place = blamed_place(message, base, {}); !place.empty())
      return fail("{}: {}", place, message);
  const std::string place = blamed_place(message, base, cell.set);
  return fail("{}: cell '{}': {}",
              place.empty() ? cell.place({"optimization"}) : place,
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
    if (!resolved) return blamed(resolved.error().message, base, cell);
    if (const std::string why = why_unsuitable(row, *resolved); !why.empty())
      return fail("{}: cell '{}': {}", cell.place({"optimization"}), printable(cell.name), why);
    result.push_back({level, *std::move(resolved)});
  }
  return result;
}

} // namespace assay
