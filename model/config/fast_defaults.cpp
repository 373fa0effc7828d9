#include "model/config/fast_defaults.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "model/config/family_config.h"

namespace assay {

namespace {

std::map<const Optimization*, std::string> keys_of_rows() {
  std::map<const Optimization*, std::string> keys;
  for (const Optimization& row : optimizations().all()) {
    if (row.fast_default.empty()) continue;
    const std::set<std::string> switched = switched_keys(row);
    if (switched.size() != 1 || row.level(row.fast_default) == nullptr)
      internal_error("optimization '{}' switches {} keys; its default level '{}' must switch one",
                     row.name,
                     switched.size(),
                     row.fast_default);
    keys.emplace(&row, *switched.begin());
  }
  return keys;
}

const std::map<const Optimization*, std::string>& keys_by_row() {
  static const std::map<const Optimization*, std::string> keys = keys_of_rows();
  return keys;
}

bool has_part(const Optimization& row, const TrainConfig& filled) {
  if (!row.family.empty() && row.family != filled.family) return false;
  return std::ranges::all_of(row.needs,
                             [&](const Need& need) { return !need.of_model || need.met(filled); });
}

// "it needs norms = fused"; of one level "cudnn needs bf16, fp16 or fp8".
std::string needs_text(const Need& need) {
  return fmt::format("{} needs {}", need.level.empty() ? "it" : need.level, need.words.what);
}

// A row whose fast level was considered, and the variants that would take it.
struct Candidate {
  const Optimization* row;
  std::vector<bool> takes; // by variant
};

class Chooser {
public:
  Chooser(const std::vector<NamedConfig>& variants, const Optimization* tested)
      : variants_(variants), tested_(tested) {}

  std::vector<Candidate> taken;
  std::vector<Fallback> fallbacks;

  void choose(int capability) {
    for (const Optimization& row : optimizations().all())
      if (!row.fast_default.empty()) consider(row, capability);
    while (drop_one()) continue;
  }

  // The configuration of a variant, without one of the candidates where it is given.
  TrainConfig config_of(std::size_t variant, const Candidate* without = nullptr) const {
    TrainConfig config = variants_[variant].config;
    for (const Candidate& candidate : taken)
      if (&candidate != without && candidate.takes[variant])
        candidate.row->level(candidate.row->fast_default)->apply(config);
    return config;
  }

private:
  void consider(const Optimization& row, int capability) {
    const std::string& key = fast_key(row);
    Candidate candidate{&row, {}};
    for (const auto& [config, named] : variants_) {
      const bool set = named.contains(key);
      if (set && has_level(config, *row.level(row.fast_default))) return;
      const Result<TrainConfig> filled = fill_from_preset(config);
      candidate.takes.push_back(!set && filled && has_part(row, *filled));
    }
    if (std::ranges::none_of(candidate.takes, [](bool takes) { return takes; })) return;
    if (capability != 0 && capability < row.fast_capability)
      return add_fallback(row,
                          fmt::format("{} needs a GPU of compute capability {}.{}, this one has "
                                      "{}.{}",
                                      row.fast_default,
                                      row.fast_capability / 10,
                                      row.fast_capability % 10,
                                      capability / 10,
                                      capability % 10));
    taken.push_back(std::move(candidate));
  }

  void add_fallback(const Optimization& row, const std::string& why) {
    const nlohmann::json slow = to_json(TrainConfig()).at(fast_key(row));
    fallbacks.push_back(
        {fast_key(row), slow.is_string() ? slow.get<std::string>() : slow.dump(), why});
  }

  // A candidate that cannot stay leaves. False where all can.
  bool drop_one() {
    for (Candidate& candidate : taken)
      for (std::size_t i = 0; i < variants_.size(); ++i)
        if (const Need* need = candidate.takes[i] ? unmet(*candidate.row, i) : nullptr)
          return drop(candidate, needs_text(*need));
    for (std::size_t i = 0; i < variants_.size(); ++i)
      for (const Optimization* row : rows_in_use(i))
        if (drop_for(*row, i)) return true;
    return false;
  }

  // What somebody chose beside the defaults: the row under test, and whatever is switched.
  std::vector<const Optimization*> rows_in_use(std::size_t variant) const {
    std::vector<const Optimization*> rows;
    if (tested_ != nullptr) rows.push_back(tested_);
    const TrainConfig config = config_of(variant);
    for (const Optimization& row : optimizations().all())
      if (&row != tested_ && !has_level(config, row.levels.front())) rows.push_back(&row);
    return rows;
  }

  bool drop(const Candidate& candidate, const std::string& why) {
    add_fallback(*candidate.row, why);
    taken.erase(taken.begin() + (&candidate - taken.data()));
    return true;
  }

  // The first need of the row that a variant does not meet; nullptr: none.
  const Need* unmet(const Optimization& row, std::size_t variant) const {
    for (const Need& need : row.needs)
      if (!is_met(row, need, config_of(variant))) return &need;
    return nullptr;
  }

  static bool is_met(const Optimization& row, const Need& need, const TrainConfig& config) {
    const Result<TrainConfig> filled = fill_from_preset(config);
    return !filled || meets(*filled, row, need); // resolve() will say what is wrong with the shape
  }

  // Whether a candidate stood between the row and one of its needs; it leaves. Of a row that is not
  // under test only what no training has without.
  bool drop_for(const Optimization& row, std::size_t variant) {
    for (const Need& need : row.needs) {
      if (&row != tested_ && !need.always) continue;
      if (is_met(row, need, config_of(variant))) continue;
      for (const Candidate& candidate : taken)
        if (candidate.takes[variant] && is_met(row, need, config_of(variant, &candidate)))
          return drop(candidate,
                      fmt::format("{}{} needs {}",
                                  row.name,
                                  need.level.empty() ? "" : " = " + need.level,
                                  need.words.what));
    }
    return false;
  }

  const std::vector<NamedConfig>& variants_;
  const Optimization* tested_;
};

} // namespace

const std::string& fast_key(const Optimization& row) {
  return keys_by_row().at(&row);
}

std::vector<Fallback>
take_fast_defaults(std::vector<NamedConfig>& variants, const Optimization* tested, int capability) {
  if (variants.empty() || variants.front().config.device != Device::Cuda) return {};
  Chooser chooser(variants, tested);
  chooser.choose(capability);
  for (std::size_t i = 0; i < variants.size(); ++i) variants[i].config = chooser.config_of(i);
  return std::move(chooser.fallbacks);
}

std::string fallback_text(const Fallback& fallback) {
  return fmt::format("{} stays at {}: {}", fallback.key, fallback.value, fallback.why);
}

std::string fallbacks_text(const std::vector<Fallback>& fallbacks) {
  std::vector<std::string> texts;
  for (const Fallback& fallback : fallbacks) texts.push_back(fallback_text(fallback));
  return fmt::format("{}", fmt::join(texts, "\n"));
}

} // namespace assay
