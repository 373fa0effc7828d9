// FP8 linears against their definition: products of the dequantized operands.
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <string>

#include "model/gates/code_path.h"
#include "model/gates/gates.h"
#include "model/layers/fp8/fp8_largest.h"
#include "model/layers/fp8/fp8_linear.h"
#include "model/training/trainer.h"
#include "tests/model/event_counts.h"
#include "tests/model/model_fixture.h"

namespace assay {
namespace model_fp8_test {

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
  Fp8Casts casts;
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
  Fp8Casts casts;
  const Fp8Guard guard(&casts);
  EXPECT_TRUE(at::equal(apply_linear(x, w), at::linear(x, w)));
  const Fp8Guard off(nullptr);
  const at::Tensor x16 = random({8, 16}, 6), w16 = random({16, 16}, 7);
  EXPECT_TRUE(at::equal(apply_linear(x16, w16), at::linear(x16, w16)));
}

// Linears that follow one another and read one input cast it once, and only while it is the same.
TEST(Fp8Linear, SharesTheCastOfItsInput) {
  const at::Tensor x = random({32, 16}, 8), w = random({16, 16}, 9), v = random({48, 16}, 10);
  Fp8Casts casts;
  const Fp8Guard guard(&casts);
  const auto linear = [](const at::Tensor& a, const at::Tensor& weight) {
    Fp8Casts fresh;
    const Fp8Guard own(&fresh);
    return apply_linear(a, weight);
  };
  EventCounts counts;
  const SpanSinkGuard counting(counts);
  EXPECT_TRUE(at::equal(apply_linear(x, w), linear(x, w)));
  EXPECT_TRUE(at::equal(apply_linear(x, v), linear(x, v)));
  EXPECT_EQ(counts.seen["fp8/input_cast"], 1 + 2);
  x.mul_(3);
  EXPECT_TRUE(at::equal(apply_linear(x, w), linear(x, w))) << "it was written";
  EXPECT_TRUE(at::equal(apply_linear(x + 0, w), linear(x, w)));
  at::Tensor gone = random({32, 16}, 11);
  (void)apply_linear(gone, w);
  gone = random({32, 16}, 12); // may have the address of the one before
  EXPECT_TRUE(at::equal(apply_linear(gone, w), linear(gone, w)));
}

// A note is of one tensor as it was then, and keeps no memory.
TEST(Fp8Largest, IsOfOneTensorAndTakenOnce) {
  const auto slot = [](float value) { return at::full({8}, value); };
  const auto taken = [](const at::Tensor& x) {
    const at::Tensor seen = take_largest(x);
    return seen.defined() ? seen[0].item<float>() : -1;
  };
  const at::Tensor x = random({6, 8}, 1), y = random({6, 8}, 2), three = slot(3), four = slot(4);
  note_largest(x, three);
  note_largest(y, four);
  EXPECT_EQ(taken(y), 4);
  EXPECT_EQ(taken(x.view({12, 4})), 3) << "the same values";
  EXPECT_EQ(taken(x), -1) << "taken";
  note_largest(x, three);
  EXPECT_EQ(taken(x.narrow(0, 0, 5)), -1);
  EXPECT_EQ(taken(x.t()), -1);
  EXPECT_EQ(taken(x.clone()), -1);
  x.mul_(2);
  EXPECT_EQ(taken(x), -1) << "written since";
  note_largest(x, at::Tensor());
  EXPECT_EQ(taken(x), -1);
  {
    const at::Tensor gone = slot(5);
    note_largest(x, gone);
  }
  EXPECT_EQ(taken(x), -1) << "nobody keeps the number";
  for (int i = 0; i < 100; ++i) { // addresses come back
    at::Tensor passing = random({6, 8}, 3);
    note_largest(passing, three);
    passing = at::Tensor();
    EXPECT_EQ(taken(random({6, 8}, 4)), -1);
  }
}

TEST(Fp8Largest, SlotsComeFromAGuardOnAGpu) {
  EXPECT_FALSE(fp8_slot(at::kCPU).defined());
  Fp8Casts casts;
  const Fp8Guard guard(&casts);
  EXPECT_FALSE(fp8_slot(at::kCPU).defined()) << "a CPU finds it while it casts";
}

// In evaluation nobody reads transposes; the step that follows makes its own.
TEST(Fp8Linear, CastsTransposesWhereABackwardPassMayFollow) {
  const at::Tensor x = random({32, 16}, 8), w = random({16, 16}, 9).requires_grad_();
  Fp8Casts casts;
  const Fp8Guard guard(&casts);
  {
    const at::NoGradGuard no_grad;
    EXPECT_FALSE(apply_linear(x, w).requires_grad());
  }
  EXPECT_FALSE(casts.input(x, w, Fp8Orders::Rows).by_columns.defined());
  apply_linear(x, w).sum().backward();
  EXPECT_TRUE(casts.weight(w, Fp8Orders::Rows).by_columns.defined());
  EXPECT_LE(relative_rms(w.grad(), x.sum(0).expand({16, 16})), 6e-2);
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
  EXPECT_EQ(seen.counters.at("fp8/input_cast"), 2 * (14 - 1)); // attention's q and latent share one
  EXPECT_EQ(seen.counters.count("fp8/off"), 0U);
  Trainer trainer(config);
  const double before = trainer.step(batches).loss();
  for (int i = 0; i < 20; ++i) (void)trainer.step(batches);
  EXPECT_LT(trainer.step(batches).loss(), before - 0.3);
}

// The first step's scales come from the tensors themselves, later ones' from the steps before.
TEST(Fp8Delayed, ScalesComeFromEarlierSteps) {
  const at::Tensor w = random({32, 16}, 1).requires_grad_(), x = random({24, 16}, 2),
                   dy = random({24, 32}, 3).to(at::kBFloat16);
  Fp8Histories histories(std::vector<at::Tensor>{w});
  const auto step = [&](const at::Tensor& input, const at::Tensor& gradient) {
    const at::Tensor leaf = input.clone().requires_grad_();
    w.mutable_grad().reset();
    at::Tensor y;
    {
      Fp8Casts casts(&histories);
      const Fp8Guard guard(&casts);
      y = apply_linear(leaf, w);
    }
    y.backward(gradient);
    histories.roll();
    return std::vector<at::Tensor>{y.detach(), leaf.grad(), w.grad()};
  };
  const auto current = [&](const at::Tensor& input, const at::Tensor& gradient) {
    Fp8Histories fresh(std::vector<at::Tensor>{w});
    std::swap(fresh, histories);
    auto result = step(input, gradient);
    std::swap(fresh, histories);
    return result;
  };
  const auto same = [](const auto& a, const auto& b) {
    for (std::size_t i = 0; i < a.size(); ++i)
      if (!at::equal(a[i], b[i])) return false;
    return true;
  };
  EXPECT_TRUE(same(step(x, dy), current(x, dy)));
  EXPECT_TRUE(same(step(x, dy), current(x, dy))) << "the same largest values";
  // Halves have codes of their own, since the scale fits twice their size: all but subnormal ones
  // are the same values.
  EXPECT_LE(relative_rms(step(x / 2, dy)[0], current(x / 2, dy)[0]), 1e-2);
  // What is larger than ever is cut, and fits in the next step.
  const std::vector<at::Tensor> cut = step(8 * x, dy), whole = current(8 * x, dy);
  EXPECT_GT(relative_rms(cut[0], whole[0]), .3);
  EXPECT_TRUE(same(step(8 * x, dy), whole));
}

TEST(Fp8Delayed, HistoryHasAKnownLength) {
  const at::Tensor w = random({16, 16}, 1);
  Fp8Histories histories(std::vector<at::Tensor>{w});
  const at::Tensor slot = histories.slot(w, Fp8Of::Gradient);
  const auto roll = [&](float now) {
    slot[0].fill_(now);
    histories.roll();
    return slot[1].item<float>();
  };
  EXPECT_EQ(roll(0), 1);
  EXPECT_EQ(roll(7), 7);
  EXPECT_EQ(roll(std::numeric_limits<float>::infinity()), 7);
  slot[0].fill_(9);
  histories.discard();
  for (std::int64_t i = 3; i < Fp8Histories::kLength; ++i) EXPECT_EQ(roll(2), 7);
  EXPECT_EQ(roll(2), 7) << "the step of 7 is the last that is kept";
  EXPECT_EQ(roll(2), 2);
}

TEST(Fp8Matrix, IsFoundInItsTensorAndNowhereElse) {
  const Fp8Matrix matrix = to_fp8(random({32, 48}, 1), at::kFloat8_e4m3fn, Fp8Orders::Both);
  const at::Tensor x = fp8_only({32, 3, 16}, matrix);
  EXPECT_EQ(x.scalar_type(), at::kBFloat16);
  ASSERT_NE(fp8_of(x), nullptr);
  EXPECT_TRUE(fp8_of(x)->by_rows.is_same(matrix.by_rows));
  EXPECT_EQ(fp8_of(x.reshape({32, 48})), fp8_of(x));
  EXPECT_EQ(x.reshape({32, 48}).sizes(), (at::IntArrayRef{32, 48}));
  EXPECT_EQ(x.const_data_ptr(), nullptr) << "nobody may read what is not there";
  EXPECT_EQ(fp8_of(random({32, 48}, 1)), nullptr);
  EXPECT_EQ(matrix.by_rows.use_count(), 2);
}

TrainConfig delayed_config() {
  TrainConfig config = small_config();
  config.precision = Precision::Fp8;
  config.fp8_scaling = Fp8Scaling::Delayed;
  return config;
}

TEST(Fp8Delayed, AStepCountsItsScalesAndAStateHoldsThem) {
  const TrainConfig config = delayed_config();
  const std::vector<Batch> batches = ragged_batches(config, 2);
  Trainer trainer(config);
  EventCounts first, second;
  {
    const SpanSinkGuard counting(first);
    (void)trainer.step({batches[0]});
  }
  {
    const SpanSinkGuard counting(second);
    (void)trainer.step({batches[1]});
  }
  EXPECT_EQ(first.seen.count("fp8/delayed"), 0U);
  EXPECT_EQ(second.seen.count("fp8/current"), 0U);
  EXPECT_EQ(second.seen["fp8/delayed"], second.seen["fp8/linear"]);
  Trainer resumed(config), without(config);
  NamedTensors state = trainer.state_tensors();
  resumed.load_state_tensors(state);
  std::erase_if(state, [](const auto& named) { return named.first.starts_with("fp8."); });
  without.load_state_tensors(state);
  const std::vector<at::Tensor> expected = trainer.gradients(batches[0]);
  const auto differ = [&](Trainer& other) {
    const std::vector<at::Tensor> seen = other.gradients(batches[0]);
    for (std::size_t i = 0; i < seen.size(); ++i)
      if (!at::equal(seen[i], expected[i])) return true;
    return false;
  };
  EXPECT_FALSE(differ(resumed));
  EXPECT_FALSE(differ(trainer)) << "gradients() changes nothing";
  EXPECT_TRUE(differ(without)) << "its scales are its tensors' own";
}

TEST(Fp8Delayed, NeedsFp8) {
  TrainConfig config = delayed_config();
  config.precision = Precision::Bf16;
  const Result<TrainConfig> refused = resolve(config);
  ASSERT_FALSE(bool(refused));
  EXPECT_NE(refused.error().message.find("'fp8_scaling'"), std::string::npos);
}

bool all_pass(const std::vector<GateResult>& gates) {
  return std::all_of(gates.begin(), gates.end(), [](const GateResult& g) { return g.passed; });
}

at::Tensor fp8_linear(const at::Tensor& x, const at::Tensor& weight) {
  Fp8Casts casts;
  const Fp8Guard guard(&casts);
  return apply_linear(x, weight);
}

// x, the product or a gradient off by a factor of two, as a wrong scale makes them.
struct Scaled : torch::autograd::Function<Scaled> {
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& x,
                            double there,
                            double back) {
    context->saved_data["back"] = back;
    return x * there;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    return {grads[0] * context->saved_data["back"].toDouble(), {}, {}};
  }
};

TEST(Fp8Gates, RejectAWrongScale) {
  const TrainConfig config = small_config();
  EXPECT_TRUE(all_pass(fp8_linear_gates(fp8_linear, config)));
  const auto planted = [&](double there, double back) {
    return fp8_linear_gates(
        [=](const at::Tensor& x, const at::Tensor& weight) {
          return Scaled::apply(fp8_linear(x, weight), there, back);
        },
        config);
  };
  for (const double factor : {0.5, 2.0}) {
    EXPECT_FALSE(planted(factor, 1)[0].passed) << factor;
    EXPECT_TRUE(planted(factor, 1)[1].passed) << factor;
    EXPECT_FALSE(planted(1, factor)[1].passed) << factor;
  }
  // A scale that makes values saturate and is undone behind.
  const auto saturated = fp8_linear_gates(
      [](const at::Tensor& x, const at::Tensor& weight) {
        const at::Tensor bound = x.detach().abs().amax() / 2;
        return fp8_linear(x.clamp(-bound, bound), weight);
      },
      config);
  EXPECT_FALSE(saturated[0].passed) << saturated[0].value;
  // bf16 would pass all bounds, but not show the counter.
  EXPECT_TRUE(all_pass(fp8_linear_gates(
      [](const at::Tensor& x, const at::Tensor& w) { return at::linear(x, w.to(x.scalar_type())); },
      config)));
}

TEST(Fp8Gates, HoldTheWholeModelToFp32) {
  TrainConfig bf16 = small_config(), fp8 = bf16;
  bf16.precision = Precision::Bf16;
  fp8.precision = Precision::Fp8;
  const Optimization& row = *optimizations().find("fp8");
  const std::vector<GateResult> gates = run_gates(row, bf16, fp8, ragged_batches(bf16, 1));
  ASSERT_EQ(gates.size(), 4U);
  for (const GateResult& gate : gates) {
    EXPECT_TRUE(gate.passed) << gate.name << " " << gate.value;
    EXPECT_GT(gate.value, gate.bound / 10) << gate.name << ": is it FP8?";
  }
  fp8.fp8_scaling = Fp8Scaling::Delayed;
  for (const GateResult& gate : run_gates(row, bf16, fp8, ragged_batches(bf16, 1)))
    EXPECT_TRUE(gate.passed) << "delayed: " << gate.name << " " << gate.value;
  TrainConfig other = fp8;
  other.seed += 1; // another model
  EXPECT_FALSE(all_pass(run_gates(row, bf16, other, ragged_batches(bf16, 1))));
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

} // namespace model_fp8_test
} // namespace assay
