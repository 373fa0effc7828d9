// The kernels of kernels/rowwise on the CPU against plain fp64 loops.
#include <gtest/gtest.h>

#include <type_traits>

#include "tests/kernels/kernel_samples.h"

#include "kernels/rowwise/add_norm.cuh"
#include "kernels/rowwise/columns.cuh"
#include "kernels/rowwise/gated_norm.cuh"
#include "kernels/rowwise/gelu.cuh"
#include "kernels/rowwise/swiglu.cuh"

namespace assay::rowwise {
namespace rowwise_emulated_test {

using namespace test;

constexpr int kBlocks = 3; // of a backward kernel here, fewer than rows need

dim3 blocks(std::int64_t count) {
  return dim3(static_cast<unsigned>(count));
}

// What a kernel leaves of results in 16 bits that the next casts to FP8.
float largest(const std::vector<bf16>& written) {
  double most = 0;
  for (const bf16 x : written) most = std::max(most, std::abs(value(x)));
  return static_cast<float>(most);
}

// As a residual stream of float or bf16.
template <class Stream> std::vector<Stream> stream_of(const std::vector<float>& x) {
  if constexpr (std::is_same_v<Stream, bf16>)
    return half(x);
  else
    return x;
}

template <class Stream, bool kLayer, int kWords, bool kWhole>
void check_norm(int width, bool with_branch) {
  constexpr double kStream = std::is_same_v<Stream, bf16> ? kHalf : kFull;
  constexpr int kRows = 41;
  const std::size_t columns = static_cast<std::size_t>(width), size = kRows * columns;
  const std::vector<float> weight = normal(columns, .3F, 1), bias = normal(columns);
  const std::vector<Stream> x = stream_of<Stream>(normal(size, 2, kLayer ? 3 : 0)),
                            next = stream_of<Stream>(normal(size));
  const std::vector<bf16> branch = half(normal(size)), dy = half(normal(size));
  std::vector<float> rstd(kRows, NAN), mean(kRows, NAN);
  std::vector<float> partial((kLayer ? 2 : 1) * kBlocks * columns, NAN);
  const std::vector<Stream> unset = stream_of<Stream>(std::vector<float>(size, NAN));
  std::vector<Stream> sum = unset, dx = unset;
  std::vector<bf16> y(size, kNan), dx16(size, kNan);
  float y_largest = 0, dx_largest = 0;
  const AddNorm<Stream> p{x.data(),
                          with_branch ? branch.data() : nullptr,
                          weight.data(),
                          sum.data(),
                          y.data(),
                          rstd.data(),
                          kRows,
                          width,
                          kLayer ? bias.data() : nullptr,
                          mean.data(),
                          &y_largest};
  emu::launch(blocks((kRows + kNormWarps - 1) / kNormWarps), kNormThreads, 0, [&] {
    add_norm<Stream, kLayer, kWords, kWhole>(p);
  });
  const std::vector<Stream>& normed = with_branch ? sum : x;
  const AddNormBackward<Stream> b{normed.data(),
                                  rstd.data(),
                                  weight.data(),
                                  dy.data(),
                                  next.data(),
                                  dx.data(),
                                  dx16.data(),
                                  partial.data(),
                                  kRows,
                                  width,
                                  mean.data(),
                                  &dx_largest};
  emu::launch(blocks(kBlocks), kNormThreads, 0, [&] {
    add_norm_backward<Stream, kLayer, kWords, kWhole>(b);
  });
  std::vector<double> e_sum(size), stored(size), e_y(size), e_dx(size), e_dw(columns),
      e_db(columns);
  for (std::size_t t = 0; t < kRows; ++t) {
    double shift = 0, square = 0, along = 0, level = 0;
    for (std::size_t i = t * columns; i < (t + 1) * columns; ++i) {
      e_sum[i] = value(x[i]) + (with_branch ? value(branch[i]) : 0);
      stored[i] = value(normed[i]); // what is normed
      if (kLayer) shift += stored[i] / width;
    }
    for (std::size_t i = t * columns; i < (t + 1) * columns; ++i)
      square += std::pow(stored[i] - shift, 2);
    const double r = 1 / std::sqrt(square / width + (kLayer ? 1e-5 : 1e-6));
    for (std::size_t c = 0; c < columns; ++c) {
      const std::size_t i = t * columns + c;
      const double u = (stored[i] - shift) * r;
      e_y[i] = u * weight[c] + (kLayer ? bias[c] : 0);
      along += u * weight[c] * value(dy[i]) / width;
      if (kLayer) level += weight[c] * value(dy[i]) / width;
    }
    for (std::size_t c = 0; c < columns; ++c) {
      const std::size_t i = t * columns + c;
      const double u = (stored[i] - shift) * r;
      e_dw[c] += u * value(dy[i]);
      e_db[c] += value(dy[i]);
      e_dx[i] = value(next[i]) + r * (weight[c] * value(dy[i]) - level - u * along);
    }
  }
  if (with_branch) {
    EXPECT_LE(off(e_sum, sum), kStream);
  }
  EXPECT_EQ(y_largest, largest(y));
  EXPECT_EQ(dx_largest, largest(dx16));
  EXPECT_LE(off(e_y, y), kHalf);
  EXPECT_LE(off(e_dx, dx), kStream);
  EXPECT_LE(off(e_dx, dx16), kHalf);
  const auto half_of = partial.begin() + static_cast<std::ptrdiff_t>(kBlocks * columns);
  EXPECT_LE(off(e_dw, added({partial.begin(), half_of}, columns)), kFull);
  if (kLayer) {
    EXPECT_LE(off(e_db, added({half_of, partial.end()}, columns)), kFull);
  }
}

template <bool kLayer> void check_widths() {
  check_norm<float, kLayer, 2, true>(256, true);
  check_norm<bf16, kLayer, 2, true>(256, true);
  check_norm<float, kLayer, 2, false>(200, true); // the last word is partly beyond the row
  check_norm<bf16, kLayer, 2, false>(200, true);
  check_norm<float, kLayer, 1, false>(64, false); // no branch
  check_norm<bf16, kLayer, 1, false>(64, false);
}

TEST(RowwiseEmulated, AddRmsNorm) {
  check_widths<false>();
}
TEST(RowwiseEmulated, AddLayerNorm) {
  check_widths<true>();
}

// What the backward pass takes is what the forward pass normed.
TEST(RowwiseEmulated, TheSumIsNormedAsItIsStored) {
  constexpr int kRows = 9, kWidth = 256;
  constexpr std::size_t kSize = kRows * kWidth;
  const std::vector<bf16> x = half(normal(kSize, 2)), branch = half(normal(kSize));
  const std::vector<float> weight = normal(kWidth, .3F, 1);
  std::vector<bf16> sum(kSize, kNan), y(kSize, kNan), again(kSize, kNan);
  std::vector<float> rstd(kRows, NAN), rstd_again(kRows, NAN);
  const auto run = [&](const AddNorm<bf16>& p) {
    emu::launch(blocks(2), kNormThreads, 0, [&] { add_norm<bf16, false, 2, true>(p); });
  };
  run({x.data(), branch.data(), weight.data(), sum.data(), y.data(), rstd.data(), kRows, kWidth});
  run({sum.data(),
       nullptr,
       weight.data(),
       nullptr,
       again.data(),
       rstd_again.data(),
       kRows,
       kWidth});
  EXPECT_EQ(again, y);
  EXPECT_EQ(rstd_again, rstd);
}

template <int kHead> void check_gated_norm() {
  constexpr int kTokens = 37, kHeads = 3, kStride = kHeads * kHead + 40; // columns of others beside
  constexpr std::size_t kRow = kHeads * kHead, kSize = kTokens * kRow;
  const std::vector<bf16> o = half(normal(kSize, .5F)),
                          gate = half(normal(kTokens * kStride, 1.5F)), dy = half(normal(kSize));
  const std::vector<float> weight = normal(kHead, .3F, 1);
  std::vector<bf16> y(kSize, kNan), d_o(kSize, kNan), d_gate(kTokens * kStride, kNan);
  std::vector<float> partial(kBlocks * kHead, NAN);
  float y_largest = 0;
  const GatedNorm p{
      o.data(), gate.data(), weight.data(), y.data(), kTokens, kHeads, kHead, kStride, &y_largest};
  const GatedNormBackward b{p, dy.data(), d_o.data(), d_gate.data(), partial.data(), kStride};
  emu::launch(blocks((kSize / 8 + kGateThreads - 1) / kGateThreads), kGateThreads, 0, [&] {
    gated_norm<kHead>(p);
  });
  emu::launch(blocks(kBlocks), kGateThreads, 0, [&] { gated_norm_backward<kHead>(b); });
  std::vector<double> e_y(kSize), e_do(kSize), e_dgate, e_dw(kHead);
  std::vector<bf16> seen_dgate;
  const auto gate_at = [&](std::size_t i) { return i / kRow * kStride + i % kRow; };
  for (std::size_t head = 0; head < kSize / kHead; ++head) {
    double square = 0, along = 0;
    for (std::size_t c = 0; c < kHead; ++c) square += std::pow(value(o[head * kHead + c]), 2);
    const double r = 1 / std::sqrt(square / kHead + 1e-6);
    for (std::size_t c = 0; c < kHead; ++c) {
      const std::size_t i = head * kHead + c;
      along += value(dy[i]) * silu(value(gate[gate_at(i)])) * weight[c] * value(o[i]) * r / kHead;
    }
    for (std::size_t c = 0; c < kHead; ++c) {
      const std::size_t i = head * kHead + c;
      const double g = value(gate[gate_at(i)]), u = value(o[i]) * r, d = value(dy[i]) * silu(g);
      e_y[i] = u * weight[c] * silu(g);
      e_dw[c] += d * u;
      e_do[i] = r * (d * weight[c] - u * along);
      e_dgate.push_back(value(dy[i]) * u * weight[c] * d_silu(g));
      seen_dgate.push_back(d_gate[gate_at(i)]);
    }
  }
  EXPECT_EQ(y_largest, largest(y));
  EXPECT_LE(off(e_y, y), kHalf);
  EXPECT_LE(off(e_do, d_o), kHalf);
  EXPECT_LE(off(e_dgate, seen_dgate), kHalf);
  EXPECT_LE(off(e_dw, added(partial, kHead)), kFull);
  for (std::size_t i = 0; i < d_gate.size(); ++i)
    if (i % kStride >= kRow) {
      ASSERT_EQ(d_gate[i], kNan) << "a column of others was written";
    }
}

TEST(RowwiseEmulated, GatedNormOfEveryHeadWidth) {
  check_gated_norm<32>();
  check_gated_norm<64>();
  check_gated_norm<128>();
}

TEST(RowwiseEmulated, SwiGlu) {
  constexpr std::size_t kTokens = 29, kHidden = 72, kSize = kTokens * kHidden;
  const std::vector<bf16> in = half(normal(2 * kSize, 1.5F)), dy = half(normal(kSize));
  std::vector<bf16> y(kSize, kNan), d_in(2 * kSize, kNan);
  float y_largest = 0, d_largest = 0;
  const SwiGlu p{in.data(), y.data(), kTokens, kHidden, &y_largest};
  const SwiGluBackward b{in.data(), dy.data(), d_in.data(), kTokens, kHidden, &d_largest};
  const dim3 grid = blocks((kSize / 8 + kGateThreads - 1) / kGateThreads);
  emu::launch(grid, kGateThreads, 0, [&] { swiglu(p); });
  emu::launch(grid, kGateThreads, 0, [&] { swiglu_backward(b); });
  std::vector<double> e_y(kSize), e_d(2 * kSize);
  for (std::size_t i = 0; i < kSize; ++i) {
    const std::size_t at = i / kHidden * 2 * kHidden + i % kHidden;
    const double gate = value(in[at]), up = value(in[at + kHidden]), d = value(dy[i]);
    e_y[i] = silu(gate) * up;
    e_d[at] = d * up * d_silu(gate), e_d[at + kHidden] = d * silu(gate);
  }
  EXPECT_EQ(y_largest, largest(y));
  EXPECT_EQ(d_largest, largest(d_in));
  EXPECT_LE(off(e_y, y), kHalf);
  EXPECT_LE(off(e_d, d_in), kHalf);
}

// A NaN anywhere is the largest: a cast must not lose it.
TEST(RowwiseEmulated, TheLargestValueKeepsNaN) {
  constexpr std::size_t kTokens = 9, kHidden = 264;
  for (const std::size_t place : {std::size_t{0}, std::size_t{1500}, 2 * kTokens * kHidden - 1}) {
    std::vector<bf16> in = half(normal(2 * kTokens * kHidden)), y(kTokens * kHidden);
    in[place] = kNan;
    float seen = 0;
    const SwiGlu p{in.data(), y.data(), kTokens, kHidden, &seen};
    emu::launch(blocks((kTokens * kHidden / 8 + kGateThreads - 1) / kGateThreads),
                kGateThreads,
                0,
                [&] { swiglu(p); });
    EXPECT_TRUE(std::isnan(seen)) << place;
  }
}

// 264 columns: a whole group and eight of the next. Both ends of GELU, and values around 0.
TEST(RowwiseEmulated, BiasGelu) {
  constexpr std::size_t kTokens = 53, kHidden = 264, kSize = kTokens * kHidden;
  const std::vector<bf16> in = half(normal(kSize, 3)), dy = half(normal(kSize));
  const std::vector<float> bias = normal(kHidden);
  std::vector<bf16> y(kSize, kNan), d_in(kSize, kNan);
  std::vector<float> partial(kBlocks * kHidden, NAN);
  const BiasGelu p{in.data(), bias.data(), y.data(), kTokens, kHidden};
  const BiasGeluBackward b{
      in.data(), bias.data(), dy.data(), d_in.data(), partial.data(), kTokens, kHidden};
  emu::launch(blocks((kSize / 8 + kGeluThreads - 1) / kGeluThreads), kGeluThreads, 0, [&] {
    bias_gelu(p);
  });
  emu::launch(dim3(kBlocks, 2), kGeluThreads, 0, [&] { bias_gelu_backward(b); });
  std::vector<double> e_y(kSize), e_d(kSize), e_bias(kHidden);
  for (std::size_t i = 0; i < kSize; ++i) {
    const double x = value(in[i]) + bias[i % kHidden], a = std::sqrt(2 / M_PI);
    const double t = std::tanh(a * (x + .044715 * x * x * x));
    e_y[i] = .5 * x * (1 + t);
    e_d[i] = value(dy[i]) * (.5 * (1 + t) + .5 * x * (1 - t * t) * a * (1 + 3 * .044715 * x * x));
    e_bias[i % kHidden] += e_d[i];
  }
  EXPECT_LE(off(e_y, y), kHalf);
  EXPECT_LE(off(e_d, d_in), kHalf);
  EXPECT_LE(off(e_bias, added(partial, kHidden)), kFull);
}

void check_column_sum(std::int64_t rows, int width, int parts) {
  const auto columns = static_cast<std::size_t>(width);
  const std::vector<bf16> x = half(normal(static_cast<std::size_t>(rows) * columns, 1, .5F));
  std::vector<float> partial(static_cast<std::size_t>(parts) * columns, NAN), sum(columns + 1, NAN);
  const ColumnSum p{x.data(), partial.data(), sum.data(), rows, width, parts};
  const auto groups = static_cast<unsigned>((width + kColumns - 1) / kColumns);
  emu::launch(
      dim3(static_cast<unsigned>(parts), groups), kColumnThreads, 0, [&] { column_sum(p); });
  emu::launch(blocks((width + 31) / 32), kPartThreads, 0, [&] { column_sum_of_parts(p); });
  std::vector<double> expected(columns);
  for (std::size_t i = 0; i < x.size(); ++i) expected[i % columns] += value(x[i]);
  EXPECT_TRUE(std::isnan(sum.back())) << "a column behind the last was written";
  sum.pop_back();
  EXPECT_LE(off(expected, sum), kFull) << rows << " x " << width << " in " << parts;
}

// One row; groups of columns that end within a warp, fewer and more parts than rows ask for.
TEST(RowwiseEmulated, ColumnSum) {
  check_column_sum(1, 8, 1);
  check_column_sum(7, 264, 3);
  check_column_sum(131, 264, 1);
  check_column_sum(131, 520, 20);
}

TEST(RowwiseEmulated, PartsOfAColumnSumFillTheDeviceAndHaveRows) {
  EXPECT_EQ(column_sum_parts(32768, 768), kColumnBlocks / 3);
  EXPECT_EQ(column_sum_parts(32768, 2304), kColumnBlocks / 9);
  EXPECT_EQ(column_sum_parts(1, 768), 1);
  EXPECT_EQ(column_sum_parts(33, 8), 2);
  EXPECT_EQ(column_sum_parts(1 << 20, 1 << 20), 1);
}

} // namespace rowwise_emulated_test
} // namespace assay::rowwise
