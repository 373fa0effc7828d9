#include "experiments/engine/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

namespace assay {

namespace {

std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

std::uint64_t fnv1a(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

std::vector<std::size_t> permutation(std::uint64_t key, std::size_t count) {
  CounterRandom random(key);
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

} // namespace

std::uint64_t CounterRandom::next() {
  return mix(key_ + 0x9e3779b97f4a7c15u * ++counter_);
}

std::uint64_t CounterRandom::below(std::uint64_t bound) {
  const std::uint64_t reject_below = -bound % bound; // 2^64 mod bound
  for (;;)
    if (const std::uint64_t draw = next(); draw >= reject_below) return draw % bound;
}

std::uint64_t Schedule::key(std::string_view place) const {
  return mix(fnv1a(fmt::format("{}\n{}\n{}", spec_hash, seed, place)));
}

std::vector<std::size_t> Schedule::order(
    std::string_view cell, int launch, int attempt, int round, std::size_t variants) const {
  return permutation(key(fmt::format("order\n{}\n{}\n{}\n{}", cell, launch, attempt, round)),
                     variants);
}

std::vector<std::size_t>
Schedule::build_order(std::string_view cell, int launch, std::size_t variants) const {
  std::vector<std::size_t> order = permutation(key(fmt::format("build\n{}", cell)), variants);
  if (variants == 0) return order;
  const auto number = static_cast<std::size_t>(launch);
  std::rotate(
      order.begin(), order.begin() + static_cast<std::ptrdiff_t>(number % variants), order.end());
  const std::size_t earlier_turns = number == 0 ? 0 : (number - 1) / variants;
  if (earlier_turns % 2 == 1) std::reverse(order.begin(), order.end());
  return order;
}

std::uint64_t
Schedule::launch_seed(std::string_view cell, std::string_view kind, int launch, int attempt) const {
  return key(fmt::format("launch\n{}\n{}\n{}\n{}", cell, kind, launch, attempt));
}

} // namespace assay
