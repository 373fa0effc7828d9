// FP8 linears against their definition: products of the dequantized operands.
#include <gtest/gtest.h>

#include "model/gates/code_path.h"
#include "model/gates/gates.h"
#include "model/layers/fp8_linear.h"
#include "model/training/trainer.h"
#include "tests/model/model_fixture.h"

namespace assay {
namespace {

using testing_model::ragged_batches;
using testing_model::small_config;

at::Tensor random(std::vector<std::int64_t> sizes, std::uint64_t seed) {
  return at::empty(sizes).normal_(0, 1, at::make_generator<at::CPUGeneratorImpl>(seed));
}

// [R, C] in fp64, of the codes by rows.
at::Tensor dequantized(const Fp8Matrix& m, std::int64_t rows, std::int64_t columns) {
  return (m.by_rows.to(at::kDouble) * m.inverse_scale.to(at::kDouble))
      .narrow(0, 0, rows)
      .narrow(1, 0, columns);
}

TEST(Fp8Cast, UsesTheWholeRangeAndPadsWithZeros) {
  const at::Tensor x = random({5, 18}, 1);
  for (const auto& [format, most, step] : {std::tuple(at::kFloat8_e4m3fn, 448.0, 1.0 / 16),
                                           std::tuple(at::kFloat8_e5m2, 57344.0, 1.0 / 8)}) {
    const Fp8Matrix m = to_fp8(x, format, Fp8Orders::Both);
    EXPECT_EQ(m.by_rows.sizes(), (at::IntArrayRef{16, 32}));
    EXPECT_TRUE(at::equal(m.by_columns.to(at::kFloat), m.by_rows.to(at::kFloat).t()));
    EXPECT_EQ(m.by_rows.to(at::kFloat).abs().max().item<double>(), most);
    EXPECT_EQ(m.by_rows.to(at::kFloat).narrow(0, 5, 11).abs().max().item<double>(), 0);
    const at::Tensor relative = ((dequantized(m, 5, 18) - x) / x).abs();
    EXPECT_LE(relative.max().item<double>(), step + 1e-6); // half a unit of 3 or 2 mantissa bits
  }
  EXPECT_FALSE(to_fp8(x, at::kFloat8_e4m3fn, Fp8Orders::Rows).by_columns.defined());
}

TEST(Fp8Cast, WhatIsNotFiniteDoesNotBecomeFinite) {
  at::Tensor x = random({16, 16}, 2);
  x[3][4] = std::numeric_limits<float>::infinity();
  const Fp8Matrix m = to_fp8(x, at::kFloat8_e5m2, Fp8Orders::Rows);
  EXPECT_FALSE(at::isfinite(dequantized(m, 16, 16)).all().item<bool>());
  EXPECT_EQ(to_fp8(at::zeros({16, 16}), at::kFloat8_e4m3fn, Fp8Orders::Rows)
                .by_rows.to(at::kFloat)
                .abs()
                .max()
                .item<double>(),
            0);
}

// Sizes that divide by 16 and sizes that have to be padded.
class Fp8LinearTest : public testing::TestWithParam<std::array<std::int64_t, 3>> {};

TEST_P(Fp8LinearTest, EqualsTheProductsOfTheCastOperands) {
  const auto [tokens, in, out] = GetParam();
  const at::Tensor x = random({tokens, in}, 3).requires_grad_(),
                   w = random({out, in}, 4).requires_grad_(), dy = random({tokens, out}, 5);
  Fp8Weights casts;
  at::Tensor y;
  {
    const Fp8Guard guard(&casts);
    y = apply_linear(x, w);
  }
  y.backward(dy.to(y.scalar_type()));
  const at::Tensor qx =
      dequantized(to_fp8(x.detach(), at::kFloat8_e4m3fn, Fp8Orders::Rows), tokens, in);
  const at::Tensor qw =
      dequantized(to_fp8(w.detach(), at::kFloat8_e4m3fn, Fp8Orders::Rows), out, in);
  const at::Tensor qdy =
      dequantized(to_fp8(dy.to(at::kBFloat16), at::kFloat8_e5m2, Fp8Orders::Rows), tokens, out);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_LE(relative_rms(y, at::matmul(qx, qw.t())), 4e-3); // bf16's rounding
  EXPECT_LE(relative_rms(x.grad(), at::matmul(qdy, qw)), 4e-3);
  EXPECT_LE(relative_rms(w.grad(), at::matmul(qdy.t(), qx)), 1e-5);
  EXPECT_EQ(w.grad().scalar_type(), at::kFloat);
  EXPECT_LE(relative_rms(y, at::matmul(x.detach(), w.detach().t())), 6e-2); // against fp32
}

INSTANTIATE_TEST_SUITE_P(Sizes,
                         Fp8LinearTest,
                         testing::Values(std::array<std::int64_t, 3>{64, 32, 48},
                                         std::array<std::int64_t, 3>{37, 32, 40},
                                         std::array<std::int64_t, 3>{1, 16, 3}));

TEST(Fp8Linear, IsThePlainOneWithoutAGuardOrWhereSizesForbid) {
  const at::Tensor x = random({8, 20}, 6), w = random({16, 20}, 7);
  Fp8Weights casts;
  const Fp8Guard guard(&casts);
  EXPECT_TRUE(at::equal(apply_linear(x, w), at::linear(x, w)));
  const Fp8Guard off(nullptr);
  const at::Tensor x16 = random({8, 16}, 6), w16 = random({16, 16}, 7);
  EXPECT_TRUE(at::equal(apply_linear(x16, w16), at::linear(x16, w16)));
}

TEST(Fp8Training, CastsEachWeightOnceAStepAndLearns) {
  TrainConfig config = small_config();
  config.precision = Precision::Fp8;
  config.accumulate = 2;
  config.kv_rank = 16;
  const std::vector<Batch> batches = ragged_batches(config, 2);
  const CodePath seen = record_code_path(**optimizations().lookup("grad_scaler"), config, batches);
  // 2 GatedDeltaNet layers with 2 matrices, 1 attention with 4, 3 feed-forwards with 2.
  EXPECT_EQ(seen.counters.at("fp8/weight_cast"), 14);
  EXPECT_EQ(seen.counters.at("fp8/linear"), 2 * 14);
  Trainer trainer(config);
  const double before = trainer.step(batches).loss();
  for (int i = 0; i < 20; ++i) (void)trainer.step(batches);
  EXPECT_LT(trainer.step(batches).loss(), before - 0.3);
}

TEST(Fp8Training, StaysNearBf16) {
  TrainConfig config = small_config();
  const std::vector<Batch> batches = ragged_batches(config, 1);
  config.precision = Precision::Bf16;
  Trainer bf16(config);
  config.precision = Precision::Fp8;
  Trainer fp8(config);
  EXPECT_NEAR(fp8.step(batches).loss(), bf16.step(batches).loss(), 0.02);
  for (const GateResult& gate :
       run_gates(**optimizations().lookup("varlen"), config, config, batches))
    EXPECT_TRUE(gate.passed) << gate.name << " " << gate.detail;
}

} // namespace
} // namespace assay
