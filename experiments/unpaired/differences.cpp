#include "experiments/unpaired/differences.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "core/files/json_difference.h"
#include "core/files/json_text.h"
#include "core/ledger/launch_rules.h"
#include "core/ledger/stored_config.h"
#include "experiments/report/section.h"
#include "model/config/train_config.h"

namespace assay {

namespace {

using nlohmann::json;
using Values = std::set<std::string>;

constexpr std::size_t kMostKeys = 3; // that a message names
// possible_causes() names these, the paths by the content that they lead to.
constexpr std::array kConditions{"data", "tokenizer", "seed", "threads"};

json with_defaults(const json& stored) {
  json config = to_json(TrainConfig{});
  config.update(stored);
  return config;
}

// Both with every key that this build knows: resolved, if this build can read them.
std::pair<json, json> with_every_key(const std::string& first, const std::string& second) {
  const json a = stored_config(first), b = stored_config(second);
  const Result<TrainConfig> x = resolve_json(a), y = resolve_json(b);
  if (x && y) return {to_json(*x), to_json(*y)};
  return {with_defaults(a), with_defaults(b)};
}

template <class Field> Values values_of(const CellView& cell, Field Identity::*field) {
  Values values;
  for (const LaunchRow* launch : cell.counted)
    values.insert(fmt::format("{}", launch->identity.*field));
  return values;
}

// Boards of one model, by as many letters as tell them apart.
Values boards(const CellView& cell) {
  constexpr std::size_t kLetters = 12; // "GPU-a0d99238"
  Values values;
  for (const std::string& uuid : values_of(cell, &Identity::gpu_uuid))
    values.insert(uuid.substr(0, kLetters));
  return values;
}

std::string joined(Values values) {
  values.erase("");
  return values.empty() ? "not recorded" : fmt::format("{}", fmt::join(values, ", "));
}

class Causes {
public:
  void add(const std::string& what, const std::string& first, const std::string& second) {
    if (first != second) found_.push_back({what, first, second});
  }
  void add(const std::string& what, const Values& first, const Values& second) {
    add(what, joined(first), joined(second));
  }
  std::vector<Cause> take() { return std::move(found_); }
  void unknown(const std::string& what) { found_.push_back({what, joined({}), joined({})}); }

private:
  std::vector<Cause> found_;
};

// Variables that the two do not have in common.
void add_environment(Causes& causes, const CellView& first, const CellView& second) {
  const auto lines = [](const CellView& cell) {
    Values result;
    for (const std::string& text : values_of(cell, &Identity::environment)) {
      std::istringstream stream(text);
      for (std::string line; std::getline(stream, line);) result.insert(line);
    }
    return result;
  };
  const Values a = lines(first), b = lines(second);
  Values only_a, only_b;
  std::ranges::set_difference(a, b, std::inserter(only_a, only_a.end()));
  std::ranges::set_difference(b, a, std::inserter(only_b, only_b.end()));
  const auto text = [](const Values& values) {
    return values.empty() ? std::string("unset") : joined(values);
  };
  if (!only_a.empty() || !only_b.empty()) causes.add("environment", text(only_a), text(only_b));
}

Values fingerprints(const CellView& cell) {
  Values values;
  for (const LaunchRow* launch : cell.counted)
    for (const MetricRow* metric : cell.metrics(launch->id))
      if (metric->path == kDataFingerprintMetric) values.insert(metric->detail);
  return values;
}

void add_data(Causes& causes, const CellView& first, const CellView& second) {
  const Values a = fingerprints(first), b = fingerprints(second);
  if (a.empty() && b.empty()) return causes.unknown("data fingerprint");
  causes.add("data fingerprint", a, b);
}

// What decides which visits count.
std::string limits_text(const DisturbanceLimits& limits) {
  return fmt::format(
      "steal {}, run_delay {}, pairs {}", limits.steal, limits.run_delay, limits.pairs);
}

// Floating clocks never repeat to the MHz: another state, or ranges that do not overlap.
bool clocks_differ(const std::optional<Clocks>& a, const std::optional<Clocks>& b) {
  if (!a || !b) return a.has_value() != b.has_value();
  return a->locked != b->locked || a->highest_mhz < b->lowest_mhz || b->highest_mhz < a->lowest_mhz;
}

} // namespace

std::string config_difference(const std::string& first_json, const std::string& second_json) {
  const auto [first, second] = with_every_key(first_json, second_json);
  std::vector<std::string> parts;
  for (const std::string& key : differing_keys(first, second))
    if (std::ranges::find(kConditions, key) == kConditions.end())
      parts.push_back(difference_text(key, first, "in the first", second, "in the second"));
  if (parts.size() > kMostKeys) {
    const std::size_t more = parts.size() - kMostKeys;
    parts.resize(kMostKeys);
    parts.push_back(fmt::format("{} more", more));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::vector<Cause> possible_causes(const RunOfCell& first, const RunOfCell& second) {
  const CellView &a = *first.cell, &b = *second.cell;
  Causes causes;
  const auto compare = [&](const char* what, auto field) {
    causes.add(what, values_of(a, field), values_of(b, field));
  };
  compare("host", &Identity::host);
  compare("processor", &Identity::cpu);
  compare("cores", &Identity::cores);
  compare("threads", &Identity::threads);
  compare("OS kernel", &Identity::kernel);
  compare("GPU", &Identity::gpu);
  if (values_of(a, &Identity::gpu) == values_of(b, &Identity::gpu))
    causes.add("board", boards(a), boards(b));
  compare("driver", &Identity::driver);
  compare("CUDA", &Identity::cuda);
  compare("LibTorch", &Identity::libtorch);
  add_environment(causes, a, b);
  if (clocks_differ(*first.clocks, *second.clocks))
    causes.add("clocks", Values{clocks_text(*first.clocks)}, Values{clocks_text(*second.clocks)});
  causes.add("launches disturbed by other work",
             std::to_string(first.report->disturbed_launches),
             std::to_string(second.report->disturbed_launches));
  add_data(causes, a, b);
  const auto seed = [](const CellView& cell) {
    return short_json(with_defaults(*cell.config).at("seed"));
  };
  causes.add("seed", seed(a), seed(b));
  causes.add("units per visit",
             fmt::format("{} ({} discarded)", a.cell->visit_steps, a.cell->discard_steps),
             fmt::format("{} ({} discarded)", b.cell->visit_steps, b.cell->discard_steps));
  const auto processes = [](const CellView& cell) {
    return std::string(cell.cell->turns ? "one for every variant" : "one for all variants");
  };
  causes.add("processes", processes(a), processes(b));
  causes.add("limits of disturbance", limits_text(a.spec->limits), limits_text(b.spec->limits));
  return causes.take();
}

} // namespace assay
