// The order of visits. A pure function of (spec hash, seed) and a place in the plan, so that a
// resumed or repeated run needs no stored state, and the exact sign test is valid whatever the
// drift: each round's order is an independent, uniformly random permutation (two variants: a fair
// coin).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

// Counter-based generator: output i of a key depends on (key, i) alone. SplitMix64's finalizer
// (Steele, Lea, Flood, OOPSLA 2014) over key + i * golden ratio.
class CounterRandom {
public:
  explicit CounterRandom(std::uint64_t key) : key_(key) {}
  std::uint64_t next();
  std::uint64_t below(std::uint64_t bound); // uniform in [0, bound), without modulo bias

private:
  std::uint64_t key_, counter_ = 0;
};

struct Schedule {
  std::string spec_hash;
  std::uint64_t seed = 0;

  // Variant indices in the order in which round `round` visits them.
  std::vector<std::size_t>
  order(std::string_view cell, int launch, int attempt, int round, std::size_t variants) const;
  // The order in which a launch builds its replicas: a random order of the cell, turned by one
  // place from launch to launch, so that over n launches each of n variants is built first, second
  // … once. The next n launches have these orders backwards, so that over 2n launches each is built
  // before each other one as often as behind it.
  std::vector<std::size_t>
  build_order(std::string_view cell, int launch, std::size_t variants) const;
  // Seed of a launch, for what its worker draws.
  std::uint64_t
  launch_seed(std::string_view cell, std::string_view kind, int launch, int attempt) const;

private:
  std::uint64_t key(std::string_view place) const;
};

} // namespace assay
