// Keys that nobody set, on a GPU: each takes the level that its row of optimizations() names as
// `fast_default`, where the configuration can have it, else its initial value, the slow reference.
// Only new plans and trainings ask for this. What a ledger or a checkpoint stores is resolve()d
// without it, so that an absent key stays what it was.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "model/config/optimization.h"

namespace assay {

// A configuration before resolve(), and the keys of it that somebody set.
struct NamedConfig {
  TrainConfig config;
  std::set<std::string> named;
};

// A fast level that was not taken, though the model has what it makes faster.
struct Fallback {
  std::string key, value; // what is used instead
  std::string why;
  bool operator==(const Fallback&) const = default;
};

// `variants` share all but what is compared, so a fast level is for all of them or for none:
//   - a variant without the part of a model that the level makes faster is not asked;
//   - a key that one variant sets to the fast level stays slow where another does not set it;
//   - the row under test (`tested`, may be null) and every key that somebody set come first.
// Rows that exclude each other go in the order of optimizations(). `capability`: of the GPU, 90 is
// 9.0; 0: unknown, enough.
std::vector<Fallback>
take_fast_defaults(std::vector<NamedConfig>& variants, const Optimization* tested, int capability);

// The only key that a row with a `fast_default` switches.
const std::string& fast_key(const Optimization& row);

// "norms stays at ops: it needs …"
std::string fallback_text(const Fallback& fallback);
// One a line.
std::string fallbacks_text(const std::vector<Fallback>& fallbacks);

} // namespace assay
