// What tests of kernels over chunks of packed documents share: bf16 bits, the table of chunks, and
// the distance of results from fp64.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

namespace assay::test {

inline std::uint16_t half_of(float x) {
  std::uint32_t u;
  std::memcpy(&u, &x, 4);
  return std::uint16_t((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
inline float float_of(std::uint16_t h) {
  const std::uint32_t u = std::uint32_t(h) << 16;
  float x;
  std::memcpy(&x, &u, 4);
  return x;
}

// Segments in the kernels' order, longest first: chunks as pairs (first token, tokens), the first
// chunk of each segment, and the segment's number twice.
struct ChunkLists {
  std::vector<int> chunk, first, slot;
  int chunks() const { return int(chunk.size()) / 2; }
};

inline ChunkLists cut(const std::vector<int>& lengths, int size) {
  struct Range {
    int begin, length, number;
  };
  std::vector<Range> ranges;
  int begin = 0;
  for (int l : lengths) ranges.push_back({begin, l, int(ranges.size())}), begin += l;
  std::stable_sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) {
    return a.length > b.length;
  });
  ChunkLists lists;
  lists.first = {0};
  for (const Range& r : ranges) {
    for (int i = 0; i < r.length; i += size) {
      lists.chunk.push_back(r.begin + i);
      lists.chunk.push_back(std::min(size, r.length - i));
    }
    lists.first.push_back(lists.chunks());
    lists.slot.insert(lists.slot.end(), {r.number, r.number});
  }
  return lists;
}

template <class Actual> double distance(const std::vector<double>& expected, const Actual& actual) {
  double x = 0, y = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double a = actual(i);
    if (!(std::abs(a) < 1e30)) return INFINITY;
    x += (a - expected[i]) * (a - expected[i]), y += expected[i] * expected[i];
  }
  return std::sqrt(x / (y > 0 ? y : 1));
}
inline double distance(const std::vector<double>& expected, const std::vector<std::uint16_t>& x) {
  return distance(expected, [&](std::size_t i) { return double(float_of(x[i])); });
}
inline double distance(const std::vector<double>& expected, const std::vector<float>& x) {
  return distance(expected, [&](std::size_t i) { return double(x[i]); });
}

} // namespace assay::test
