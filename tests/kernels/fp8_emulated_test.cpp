// kernels/fp8 on the CPU against a plain cast of every value.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/fp8/problem.h"
#include "tests/kernels/kernel_samples.h"

namespace assay::fp8 {

// The finite values of a format with bits 0 to 0x7e or 0x7b, by its definition (arXiv 2209.05433).
std::vector<double> values_of(Fp8Format format) {
  const int mantissa = format == Fp8Format::E4M3 ? 3 : 2, bias = format == Fp8Format::E4M3 ? 7 : 15;
  std::vector<double> values;
  for (int code = 0; code <= (format == Fp8Format::E4M3 ? 0x7e : 0x7b); ++code) {
    const int exponent = code >> mantissa, digits = code & ((1 << mantissa) - 1);
    values.push_back(exponent == 0
                         ? std::ldexp(digits, 1 - bias - mantissa)
                         : std::ldexp((1 << mantissa) + digits, exponent - bias - mantissa));
  }
  return values;
}

// The nearest of them, of two as near the one with an even code; NaN is 0x7f.
unsigned code_of(double x, Fp8Format format) {
  if (std::isnan(x)) return 0x7f;
  static const std::array<std::vector<double>, 2> all{values_of(Fp8Format::E4M3),
                                                      values_of(Fp8Format::E5M2)};
  const std::vector<double>& values = all[format == Fp8Format::E4M3 ? 0 : 1];
  const double size = std::min(std::abs(x), values.back());
  unsigned best = 0;
  for (unsigned i = 1; i < values.size(); ++i) {
    const double nearer = std::abs(values[best] - size) - std::abs(values[i] - size);
    if (nearer > 0 || (nearer == 0 && i % 2 == 0)) best = i;
  }
  return best | (std::signbit(x) ? 0x80U : 0U);
}

// What kernels/fp8/cast.cuh takes from CUDA.
template <Fp8Format kFormat> unsigned codes2(float low, float high) {
  return code_of(low, kFormat) | code_of(high, kFormat) << 8;
}

} // namespace assay::fp8

#include "kernels/fp8/cast.cuh"

namespace assay::fp8 {
namespace {

using Codes = std::vector<unsigned char>;

struct Sizes {
  int rows, columns, stride;
  bool words; // x is read 16 bytes at a time
};

constexpr int padded(int size) {
  return (size + 15) / 16 * 16;
}

struct Result {
  Codes by_rows, by_columns;
  float amax = 0, inverse_scale = 0;
};

template <bool kWords, class T, Fp8Format kFormat>
Result cast(const std::vector<T>& x, const Sizes& s, bool rows = true, bool columns = true) {
  const int high = padded(s.rows), wide = padded(s.columns);
  const auto size = static_cast<std::size_t>(high * wide);
  Result result;
  result.by_rows.assign(size, 0xee), result.by_columns.assign(size, 0xee);
  Amax amax{x.data(), s.rows, s.columns, s.stride, &result.amax};
  if (s.stride == s.columns) amax.rows = 1, amax.columns = s.rows * s.columns;
  emu::launch(dim3(3), kThreads, 0, [&] { amax_kernel<kWords, T>(amax); });
  Fp8Cast p;
  p.x = x.data(), p.rows = s.rows, p.columns = s.columns, p.stride = s.stride;
  p.padded_rows = high, p.padded_columns = wide, p.amax = &result.amax;
  p.by_rows = rows ? result.by_rows.data() : nullptr;
  p.by_columns = columns ? result.by_columns.data() : nullptr;
  p.inverse_scale = &result.inverse_scale;
  const auto tiles = [](int n) { return static_cast<unsigned>((n + kTile - 1) / kTile); };
  emu::launch(
      dim3(tiles(wide), tiles(high)), kThreads, 0, [&] { cast_kernel<kWords, T, kFormat>(p); });
  return result;
}

// Every code by the definition, x[i] beyond a row's columns must not matter.
template <class T>
void expect_cast(const Result& seen, const std::vector<T>& x, const Sizes& s, Fp8Format format) {
  const float most = format == Fp8Format::E4M3 ? 448.F : 57344.F;
  float amax = 0;
  const auto at = [&](int r, int c) {
    return static_cast<float>(test::value(x[static_cast<std::size_t>(r * s.stride + c)]));
  };
  for (int r = 0; r < s.rows; ++r)
    for (int c = 0; c < s.columns; ++c) amax = std::max(amax, std::abs(at(r, c)));
  ASSERT_EQ(seen.amax, amax);
  const float bounded = std::max(amax, 1e-12F), scale = most / bounded;
  ASSERT_EQ(seen.inverse_scale, bounded / most);
  const int high = padded(s.rows), wide = padded(s.columns);
  for (int r = 0; r < high; ++r)
    for (int c = 0; c < wide; ++c) {
      const bool inside = r < s.rows && c < s.columns;
      const unsigned code = inside ? code_of(at(r, c) * scale, format) : 0;
      ASSERT_EQ(seen.by_rows[static_cast<std::size_t>(r * wide + c)], code) << r << " " << c;
      ASSERT_EQ(seen.by_columns[static_cast<std::size_t>(c * high + r)], code) << r << " " << c;
    }
}

template <bool kWords, class T> void check(const Sizes& s) {
  SCOPED_TRACE(testing::Message() << s.rows << " x " << s.columns << ", stride " << s.stride);
  const std::size_t size = static_cast<std::size_t>((s.rows - 1) * s.stride + s.columns);
  std::vector<float> wide = test::normal(size, 3);
  for (std::size_t i = 0; i < size; ++i)
    if (static_cast<int>(i % static_cast<std::size_t>(s.stride)) >= s.columns) wide[i] = 1e9F;
  std::vector<T> x;
  if constexpr (sizeof(T) == 4)
    x = std::move(wide);
  else
    x = test::half(wide);
  expect_cast(cast<kWords, T, Fp8Format::E4M3>(x, s), x, s, Fp8Format::E4M3);
  expect_cast(cast<kWords, T, Fp8Format::E5M2>(x, s), x, s, Fp8Format::E5M2);
}

// Whole tiles, tiles with an edge, rows that are padded, strided, or not aligned.
TEST(Fp8Emulated, EveryCodeByRowsAndByColumns) {
  for (const Sizes& s : {Sizes{128, 128, 128, true},
                         Sizes{144, 264, 264, true},
                         Sizes{37, 40, 56, true},
                         Sizes{20, 13, 16, true},
                         Sizes{77, 100, 100, false},
                         Sizes{1, 3, 3, false},
                         Sizes{33, 18, 21, false}}) {
    if (s.words) {
      check<true, bf16>(s);
      check<true, float>(s);
    } else {
      check<false, bf16>(s);
      check<false, float>(s);
    }
  }
}

TEST(Fp8Emulated, OneOrderAloneIsTheSame) {
  const Sizes s{48, 160, 160, true};
  const std::vector<bf16> x = test::half(test::normal(48 * 160));
  const Result both = cast<true, bf16, Fp8Format::E4M3>(x, s),
               rows = cast<true, bf16, Fp8Format::E4M3>(x, s, true, false),
               columns = cast<true, bf16, Fp8Format::E4M3>(x, s, false, true);
  EXPECT_EQ(rows.by_rows, both.by_rows);
  EXPECT_EQ(columns.by_columns, both.by_columns);
  EXPECT_EQ(rows.by_columns, Codes(rows.by_columns.size(), 0xee)) << "written unasked";
  EXPECT_EQ(columns.by_rows, Codes(columns.by_rows.size(), 0xee)) << "written unasked";
}

TEST(Fp8Emulated, ZerosStayZerosAndTheLargestValueIsTheFormats) {
  const Sizes s{16, 16, 16, true};
  std::vector<float> x(256, 0.F);
  const Result zeros = cast<true, float, Fp8Format::E4M3>(x, s);
  EXPECT_EQ(zeros.by_rows, Codes(256, 0));
  EXPECT_EQ(zeros.inverse_scale, 1e-12F / 448);
  for (const float largest : {1e-30F, .1F, 3.F, 1e30F}) {
    x[17] = -largest;
    const Result seen = cast<true, float, Fp8Format::E4M3>(x, s);
    EXPECT_EQ(seen.by_rows[17], largest < 1e-12F ? 0x80 : 0xfe) << largest;
  }
}

// inf and NaN make the scale so, and every code with it.
TEST(Fp8Emulated, WhatIsNotFiniteDoesNotBecomeFinite) {
  const Sizes s{16, 24, 24, true};
  for (const float bad : {std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity(),
                          std::nanf("")})
    for (const std::size_t place : {std::size_t{0}, std::size_t{100}, std::size_t{383}}) {
      std::vector<float> x = test::normal(384);
      x[place] = bad;
      const Result seen = cast<true, float, Fp8Format::E5M2>(x, s);
      EXPECT_FALSE(std::isfinite(seen.inverse_scale));
      EXPECT_EQ(seen.by_rows[place / 24 * 32 + place % 24], 0x7f) << bad;
    }
}

} // namespace
} // namespace assay::fp8
