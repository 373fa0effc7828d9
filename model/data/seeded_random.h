// Random numbers that depend on the seed alone: the standard library's shuffles differ between
// implementations.
#pragma once

#include <cstdint>

namespace assay {

// SplitMix64's finalizer (Steele, Lea, Flood 2014): a bijection of 64-bit words without visible
// structure.
inline std::uint64_t mix(std::uint64_t word) {
  word += 0x9e3779b97f4a7c15ULL;
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9ULL;
  word = (word ^ (word >> 27)) * 0x94d049bb133111ebULL;
  return word ^ (word >> 31);
}

class SeededRandom {
public:
  explicit SeededRandom(std::uint64_t seed) : state_(mix(seed)) {}

  std::uint64_t next() {
    const std::uint64_t word = mix(state_);
    state_ += 0x9e3779b97f4a7c15ULL;
    return word;
  }

  // Uniform in [0, bound), bound > 0. Rejection keeps it exact.
  std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t reject_below = (0 - bound) % bound;
    std::uint64_t word = next();
    while (word < reject_below) word = next();
    return word % bound;
  }

private:
  std::uint64_t state_;
};

} // namespace assay
