// kernels/fp8 on the CPU against a plain cast of every value.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/fp8/problem.h"
#include "kernels/rowwise/rows.h"
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
#include "kernels/fp8/history.cuh"
#include "kernels/fp8/norms.cuh"
#include "kernels/fp8/swiglu.cuh"

namespace assay::rowwise { // of rowwise_emulated_test.cpp
void swiglu(SwiGlu p);
void swiglu_backward(SwiGluBackward p);
} // namespace assay::rowwise

namespace assay::fp8 {
namespace fp8_emulated_test {

using Codes = std::vector<unsigned char>;

struct Sizes {
  int rows, columns, stride;
  bool words; // x is read 16 bytes at a time
};

constexpr int padded(int size) {
  return (size + 15) / 16 * 16;
}

dim3 tiles(int rows, int columns) {
  const auto of = [](int n) { return static_cast<unsigned>((n + kTile - 1) / kTile); };
  return dim3(of(columns), of(rows));
}

struct Result {
  Codes by_rows, by_columns;
  float amax = 0, inverse_scale = 0;
};

// `delayed`: the largest value that the scale comes from; 0: x's own.
template <bool kWords, class T, Fp8Format kFormat>
Result cast(const std::vector<T>& x,
            const Sizes& s,
            bool rows = true,
            bool columns = true,
            float delayed = 0) {
  const int high = padded(s.rows), wide = padded(s.columns);
  const auto size = static_cast<std::size_t>(high * wide);
  Result result;
  result.by_rows.assign(size, 0xee), result.by_columns.assign(size, 0xee);
  Amax amax{x.data(), s.rows, s.columns, s.stride, &result.amax};
  if (s.stride == s.columns) amax.rows = 1, amax.columns = s.rows * s.columns;
  if (delayed == 0) emu::launch(dim3(3), kThreads, 0, [&] { amax_kernel<kWords, T>(amax); });
  Fp8Cast p;
  p.x = x.data(), p.rows = s.rows, p.columns = s.columns, p.stride = s.stride;
  p.padded_rows = high, p.padded_columns = wide, p.amax = &result.amax;
  p.by_rows = rows ? result.by_rows.data() : nullptr;
  p.by_columns = columns ? result.by_columns.data() : nullptr;
  p.inverse_scale = &result.inverse_scale;
  p.delayed = delayed > 0 ? &delayed : nullptr;
  emu::launch(tiles(high, wide), kThreads, 0, [&] {
    if (delayed > 0)
      cast_kernel<kWords, true, T, kFormat>(p);
    else
      cast_kernel<kWords, false, T, kFormat>(p);
  });
  return result;
}

// Every code by the definition, x[i] beyond a row's columns must not matter.
template <class T>
void expect_cast(const Result& seen,
                 const std::vector<T>& x,
                 const Sizes& s,
                 Fp8Format format,
                 float delayed = 0) {
  const float most = format == Fp8Format::E4M3 ? 448.F : 57344.F;
  float amax = 0;
  const auto at = [&](int r, int c) {
    return static_cast<float>(test::value(x[static_cast<std::size_t>(r * s.stride + c)]));
  };
  for (int r = 0; r < s.rows; ++r)
    for (int c = 0; c < s.columns; ++c) amax = std::max(amax, std::abs(at(r, c)));
  ASSERT_EQ(seen.amax, amax);
  const float bounded = std::max(delayed > 0 ? delayed : amax, 1e-12F), scale = most / bounded;
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
  for (const float delayed : {.7F, 9.F}) // below and above x's own: values are cut, or none
    expect_cast(cast<kWords, T, Fp8Format::E4M3>(x, s, true, true, delayed),
                x,
                s,
                Fp8Format::E4M3,
                delayed);
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

// A scale of earlier steps is finite, yet inf does not become the largest value.
TEST(Fp8Emulated, WhatIsNotFiniteStaysSoWithADelayedScale) {
  const Sizes s{16, 24, 24, true};
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    std::vector<float> x = test::normal(384);
    x[100] = bad;
    const Result seen = cast<true, float, Fp8Format::E5M2>(x, s, true, true, 4);
    EXPECT_EQ(seen.by_rows[100 / 24 * 32 + 100 % 24], 0x7f) << bad;
    EXPECT_NE(seen.by_rows[0], 0x7f);
    EXPECT_FALSE(std::isfinite(seen.amax));
  }
}

// Two casts of different sizes at once are those that each makes alone.
TEST(Fp8Emulated, ManyCastsAreTheSingleOnes) {
  const Sizes sizes[] = {{144, 264, 264, true}, {24, 32, 32, true}};
  std::vector<Fp8Cast> casts;
  std::vector<Fp8Tile> all;
  std::vector<std::vector<float>> x;
  Result results[2], alone[2];
  for (std::int32_t i = 0; i < 2; ++i) {
    const Sizes& s = sizes[i];
    x.push_back(test::normal(static_cast<std::size_t>(s.rows * s.columns), i == 0 ? 1.F : 5.F));
    alone[i] = cast<true, float, Fp8Format::E4M3>(x.back(), s);
    const int high = padded(s.rows), wide = padded(s.columns);
    Result& to = results[i];
    to.by_rows.assign(static_cast<std::size_t>(high * wide), 0xee), to.by_columns = to.by_rows;
    Fp8Cast p;
    p.x = x.back().data(), p.rows = s.rows, p.columns = s.columns, p.stride = s.stride;
    p.padded_rows = high, p.padded_columns = wide, p.amax = &to.amax;
    p.by_rows = to.by_rows.data(), p.by_columns = to.by_columns.data();
    p.inverse_scale = &to.inverse_scale;
    casts.push_back(p);
    for (int row = 0; row < high; row += kTile)
      for (int column = 0; column < wide; column += kTile) all.push_back({i, row, column});
  }
  const dim3 grid(static_cast<unsigned>(all.size()));
  emu::launch(grid, kThreads, 0, [&] { amax_many_kernel(casts.data(), all.data()); });
  emu::launch(grid, kThreads, 0, [&] { cast_many_kernel(casts.data(), all.data()); });
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(results[i].amax, alone[i].amax);
    EXPECT_EQ(results[i].inverse_scale, alone[i].inverse_scale);
    EXPECT_EQ(results[i].by_rows, alone[i].by_rows) << i;
    EXPECT_EQ(results[i].by_columns, alone[i].by_columns) << i;
  }
}

Result unwritten(const Result& like) {
  Result result;
  result.by_rows.assign(like.by_rows.size(), 0xee), result.by_columns = result.by_rows;
  return result;
}

Fp8Written written_to(Result& result, int rows, const float& delayed) {
  return {padded(rows),
          &delayed,
          &result.amax,
          &result.inverse_scale,
          result.by_rows.data(),
          result.by_columns.data()};
}

void expect_same(const Result& seen, const Result& expected) {
  EXPECT_EQ(seen.amax, expected.amax);
  EXPECT_EQ(seen.inverse_scale, expected.inverse_scale);
  EXPECT_EQ(seen.by_rows, expected.by_rows);
  EXPECT_EQ(seen.by_columns, expected.by_columns);
}

template <class Stream, int kWords, bool kWhole> void check_norm(int rows, int width, bool branch) {
  SCOPED_TRACE(testing::Message() << rows << " x " << width);
  const auto size = static_cast<std::size_t>(rows * width);
  const std::vector<float> weight = test::normal(static_cast<std::size_t>(width), .3F, 1);
  std::vector<Stream> x(size), sum(size), sum_too(size);
  const std::vector<float> values = test::normal(size, 2);
  for (std::size_t i = 0; i < size; ++i)
    if constexpr (sizeof(Stream) == 2)
      x[i] = test::half({values[i]})[0];
    else
      x[i] = values[i];
  const std::vector<bf16> added = test::half(test::normal(size));
  std::vector<bf16> y(size);
  std::vector<float> rstd(static_cast<std::size_t>(rows), 0.F), rstd_too = rstd;
  rowwise::AddNorm<Stream> p{};
  p.x = x.data(), p.branch = branch ? added.data() : nullptr, p.weight = weight.data();
  p.sum = sum.data(), p.y = y.data(), p.rstd = rstd.data(), p.rows = rows, p.width = width;
  for (int row = 0; row < rows; ++row) // what the 16-bit kernel writes, by the same function
    emu::launch(dim3(1), 32, 0, [&] {
      Row<kWords, kWhole> r;
      rowwise::norm_row<Stream, false>(r, p, row, thread_index());
      r.write(y.data() + row * width, thread_index(), width);
    });
  const float delayed = 2; // some values are cut
  const Result expected =
      cast<true, bf16, Fp8Format::E4M3>(y, {rows, width, width, true}, true, true, delayed);
  Result seen = unwritten(expected);
  p.sum = sum_too.data(), p.rstd = rstd_too.data(), p.y = nullptr;
  emu::launch(dim3(static_cast<unsigned>((padded(rows) + kBlockRows - 1) / kBlockRows)),
              kThreads,
              0,
              [&] { add_norm_cast<Stream, kWords, kWhole>(p, written_to(seen, rows, delayed)); });
  expect_same(seen, expected);
  EXPECT_EQ(sum_too, sum);
  EXPECT_EQ(rstd_too, rstd);
}

TEST(Fp8Emulated, NormIsTheCastOfItsResult) {
  check_norm<bf16, 1, false>(70, 48, true);
  check_norm<bf16, 2, true>(33, 256, true);
  check_norm<float, 2, false>(7, 208, true);
  check_norm<float, 6, true>(48, 768, false);
  check_norm<bf16, 8, true>(20, 1024, true);
}

template <int kHead> void check_gated_norm(int tokens, int heads) {
  SCOPED_TRACE(testing::Message() << tokens << " x " << heads << " x " << kHead);
  const int width = heads * kHead, stride = width + 24;
  const auto size = static_cast<std::size_t>(tokens * width);
  const std::vector<bf16> o = test::half(test::normal(size, 2)),
                          gate =
                              test::half(test::normal(static_cast<std::size_t>(tokens * stride)));
  const std::vector<float> weight = test::normal(kHead, .3F, 1);
  std::vector<bf16> y(size);
  rowwise::GatedNorm p{
      o.data(), gate.data(), weight.data(), y.data(), tokens, heads, kHead, stride};
  emu::launch(dim3(static_cast<unsigned>((size / 8 + kThreads - 1) / kThreads)), kThreads, 0, [&] {
    const int word = block_index() * kThreads + thread_index();
    const bool exists = word < static_cast<int>(size / 8); // lanes stay for the sums
    const int row = exists ? word / (width / 8) : 0, column = exists ? word % (width / 8) * 8 : 0;
    float a[8], b[8], w[8];
    load(a, o.data() + row * width + column);
    load(b, gate.data() + row * stride + column);
    load(w, weight.data() + column % kHead);
    rowwise::gate_word<kHead>(a, b, w);
    if (exists) store(y.data() + row * width + column, a);
  });
  const float delayed = 2;
  const Result expected =
      cast<true, bf16, Fp8Format::E4M3>(y, {tokens, width, width, true}, true, true, delayed);
  Result seen = unwritten(expected);
  p.y = nullptr;
  emu::launch(tiles(padded(tokens), width), kThreads, 0, [&] {
    gated_norm_cast<kHead>(p, written_to(seen, tokens, delayed));
  });
  expect_same(seen, expected);
}

TEST(Fp8Emulated, GatedNormIsTheCastOfItsResult) {
  check_gated_norm<32>(21, 3);
  check_gated_norm<64>(130, 3);
  check_gated_norm<128>(16, 2);
}

// SwiGLU and its gradient in 8 bits are casts of what their kernels write in 16.
TEST(Fp8Emulated, SwiGluIsTheCastOfItsResult) {
  for (const auto& [tokens, hidden] : {std::pair(48, 144), std::pair(133, 128), std::pair(7, 16)}) {
    SCOPED_TRACE(testing::Message() << tokens << " x " << hidden);
    const auto size = static_cast<std::size_t>(tokens * hidden);
    const std::vector<bf16> in = test::half(test::normal(2 * size, 2)),
                            dy = test::half(test::normal(size));
    std::vector<bf16> y(size), d_in(2 * size);
    const dim3 words(static_cast<unsigned>((size / 8 + kThreads - 1) / kThreads));
    emu::launch(words, kThreads, 0, [&] {
      rowwise::swiglu({in.data(), y.data(), tokens, hidden});
    });
    emu::launch(words, kThreads, 0, [&] {
      rowwise::swiglu_backward({in.data(), dy.data(), d_in.data(), tokens, hidden});
    });
    const auto check =
        [&](const std::vector<bf16>& written, int columns, auto format, auto kernel) {
          constexpr Fp8Format kFormat = decltype(format)::value;
          const float delayed = 1.5F; // some values are cut
          const Result expected = cast<true, bf16, kFormat>(
              written, {tokens, columns, columns, true}, true, true, delayed);
          Result seen = unwritten(expected);
          Fp8SwiGlu p;
          p.in = in.data(), p.dy = columns == hidden ? nullptr : dy.data();
          p.tokens = tokens, p.hidden = hidden, p.to = written_to(seen, tokens, delayed);
          emu::launch(tiles(padded(tokens), hidden), kThreads, 0, [&] { kernel(p); });
          expect_same(seen, expected);
        };
    check(y, hidden, std::integral_constant<Fp8Format, Fp8Format::E4M3>(), [](const Fp8SwiGlu& p) {
      swiglu_cast(p);
    });
    check(d_in,
          2 * hidden,
          std::integral_constant<Fp8Format, Fp8Format::E5M2>(),
          [](const Fp8SwiGlu& p) { swiglu_backward_cast(p); });
  }
}

// The scale comes from the largest of the last steps; what is not finite enters none.
TEST(Fp8Emulated, HistoryKeepsTheLargestOfItsSteps) {
  constexpr int kLength = 300;
  std::vector<Fp8Slot> slots(2, Fp8Slot{});
  std::vector<float> values(2 * kLength, 0.F);
  const auto roll = [&](float first, float second) {
    slots[0].now = first, slots[1].now = second;
    emu::launch(dim3(2), kThreads, 0, [&] {
      roll_history({slots.data(), values.data(), 2, kLength});
    });
    EXPECT_EQ(slots[0].now, 0);
  };
  roll(0, 3);
  EXPECT_EQ(slots[0].largest, 1) << "nothing but zeros";
  EXPECT_EQ(slots[1].largest, 3);
  roll(5, 2);
  EXPECT_EQ(slots[0].largest, 5);
  EXPECT_EQ(slots[1].largest, 3);
  roll(std::numeric_limits<float>::infinity(), std::nanf(""));
  EXPECT_EQ(slots[0].largest, 5);
  for (int i = 3; i < kLength; ++i) roll(.5F, 1);
  EXPECT_EQ(slots[1].largest, 3) << "the first step is still in it";
  roll(.5F, 1);
  EXPECT_EQ(slots[1].largest, 2);
  roll(.5F, 1);
  EXPECT_EQ(slots[0].largest, .5F);
  EXPECT_EQ(slots[1].largest, 1);
}

} // namespace fp8_emulated_test
} // namespace assay::fp8
