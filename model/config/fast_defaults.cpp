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

TrainConfig with_fast_level(TrainConfig config, const Optimization& row) {
  row.level(row.fast_default)->apply(config);
  return config;
}

bool has_part(const Optimization& row, const TrainConfig& filled) {
  if (!row.family.empty() && row.family != filled.family) return false;
  return std::ranges::all_of(row.needs,
                             [&](const Need& need) { return !need.of_model || need.met(filled); });
}

// Of a need or an error, what comes before its explanation.
std::string first_part(const std::string& text) {
  return text.substr(0, text.find(": "));
}

// A row whose fast level was considered, and the variants that would take it.
struct Candidate {
  const Optimization* row;
  std::vector<bool> takes; // by variant
};

using Candidates = std::vector<Candidate>;

class Chooser {
public:
  Chooser(const std::vector<NamedConfig>& variants, const Optimization* tested)
      : variants_(variants), tested_(tested) {}

  Candidates taken;
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
      if (set && differing_keys(config, with_fast_level(config, row)).empty()) return;
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
        if (const Need* need = unmet(*candidate.row, i); candidate.takes[i] && need != nullptr)
          return drop(candidate, "it needs " + first_part(need->words));
    for (std::size_t i = 0; i < variants_.size(); ++i)
      if (drop_for_tested(i) || drop_for_set_keys(i)) return true;
    return false;
  }

  bool drop(const Candidate& candidate, const std::string& why) {
    add_fallback(*candidate.row, why);
    taken.erase(taken.begin() + (&candidate - taken.data()));
    return true;
  }

  const Need*
  unmet(const Optimization& row, std::size_t variant, const Candidate* without = nullptr) const {
    const Result<TrainConfig> filled = fill_from_preset(config_of(variant, without));
    if (!filled) return nullptr; // resolve() will say so
    const auto found =
        std::ranges::find_if(row.needs, [&](const Need& need) { return !need.met(*filled); });
    return found == row.needs.end() ? nullptr : &*found;
  }

  // What the row under test cannot be measured with.
  bool drop_for_tested(std::size_t variant) {
    const Need* need = tested_ == nullptr ? nullptr : unmet(*tested_, variant);
    if (need == nullptr) return false;
    for (const Candidate& candidate : taken)
      if (candidate.takes[variant] && unmet(*tested_, variant, &candidate) != need)
        return drop(candidate, fmt::format("{} needs {}", tested_->name, first_part(need->words)));
    return false;
  }

  // What does not go with keys that somebody set.
  bool drop_for_set_keys(std::size_t variant) {
    const Result<TrainConfig> whole = resolve(config_of(variant));
    if (whole) return false;
    for (const Candidate& candidate : taken) {
      if (!candidate.takes[variant]) continue;
      const Result<TrainConfig> rest = resolve(config_of(variant, &candidate));
      if (rest || rest.error().message != whole.error().message)
        return drop(candidate, first_part(whole.error().message));
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

std::string fallbacks_text(const std::vector<Fallback>& fallbacks) {
  std::vector<std::string> texts;
  for (const Fallback& fallback : fallbacks)
    texts.push_back(fmt::format("{} stays at {}: {}", fallback.key, fallback.value, fallback.why));
  return fmt::format("{}", fmt::join(texts, "; "));
}

} // namespace assay
