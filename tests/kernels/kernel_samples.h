// Random inputs of emulated kernels, and the comparison of their results with fp64.
#pragma once

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tests/kernels/emulated_warp.h"

namespace assay::test {

constexpr bf16 kNan = 0x7fc0;
constexpr double kHalf = 3e-3, kFull = 2e-6; // relative RMS of results in bf16 and in fp32

inline std::mt19937 generator(7);

inline std::vector<float> normal(std::size_t count, float scale = 1, float shift = 0) {
  std::normal_distribution<float> draw(shift, scale);
  std::vector<float> x(count);
  for (float& value : x) value = draw(generator);
  return x;
}
inline std::vector<bf16> half(const std::vector<float>& x) {
  std::vector<bf16> y;
  for (const float value : x) y.push_back(static_cast<bf16>(simt::bf16_bits(value)));
  return y;
}
inline double value(bf16 x) {
  return simt::bf16_value(x);
}
inline double value(float x) {
  return x;
}

template <class T> double off(const std::vector<double>& expected, const std::vector<T>& seen) {
  double error = 0, size = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double difference = value(seen[i]) - expected[i];
    if (!std::isfinite(difference)) return std::numeric_limits<double>::infinity();
    error += difference * difference, size += expected[i] * expected[i];
  }
  return std::sqrt(error / size);
}

inline std::vector<float> added(const std::vector<float>& partial, std::size_t columns) {
  std::vector<float> sum(columns);
  for (std::size_t i = 0; i < partial.size(); ++i) sum[i % columns] += partial[i];
  return sum;
}

inline double silu(double x) {
  return x / (1 + std::exp(-x));
}
inline double d_silu(double x) {
  const double s = 1 / (1 + std::exp(-x));
  return s * (1 + x * (1 - s));
}

} // namespace assay::test
