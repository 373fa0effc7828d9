// The three forms of the update against each other and plain arithmetic, and kept 16-bit copies.
#include <gtest/gtest.h>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "model/gates/gates.h"
#include "model/layers/autocast.h"
#include "model/layers/linear/kept_weights.h"
#include "model/training/trainer.h"
#include "model/training/update/one_pass.h"
#include "tests/model/model_fixture.h"

namespace assay {
namespace update_pass_test {

using testing_model::ragged_batch;
using testing_model::ragged_batches;
using testing_model::small_config;

const PassScalars kRule{{}, {}, {}, {}, .9, .95, 1e-8, 1.0, .99};
constexpr double kRate = 2e-3;

at::Tensor drawn(at::IntArrayRef shape, std::uint64_t seed, at::ScalarType type) {
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  return at::empty(shape, at::kDouble).normal_(0, 1, generator).to(type);
}

// A matrix of more than one block that decays, and a vector without average or copy.
std::vector<PassParameter> parameters(at::ScalarType type) {
  std::vector<PassParameter> all;
  for (const auto& [shape, decay] : {std::pair(std::vector<std::int64_t>{130, 257}, .1),
                                     std::pair(std::vector<std::int64_t>{61}, 0.)}) {
    PassParameter p;
    p.weight = drawn(shape, 1, type), p.gradient = drawn(shape, 2, type);
    p.first = at::zeros_like(p.weight), p.second = at::zeros_like(p.weight);
    if (decay > 0) p.average = p.weight.clone(), p.copy = p.weight.to(at::kBFloat16);
    p.decay = decay;
    all.push_back(p);
  }
  return all;
}

PassScalars scalars(double scale) {
  PassScalars s = kRule;
  s.learning_rate = at::full({}, kRate), s.steps = at::zeros({});
  if (scale > 0) s.scale = at::full({1}, scale), s.found_inf = at::zeros({1});
  return s;
}

// One update in tensor operations in fp64, by the formulas of docs/model.md.
void expect_update(PassParameter& p, double factor, double steps, double scale) {
  const at::Tensor g = p.gradient.to(at::kDouble) / scale * factor;
  p.first = kRule.beta1 * p.first + (1 - kRule.beta1) * g;
  p.second = kRule.beta2 * p.second + (1 - kRule.beta2) * g * g;
  const at::Tensor mean = p.first / (1 - std::pow(kRule.beta1, steps)),
                   square = p.second / (1 - std::pow(kRule.beta2, steps));
  const auto lr = static_cast<double>(static_cast<float>(kRate)); // the scalar is fp32
  p.weight = p.weight * (1 - lr * p.decay) - lr * mean / (square.sqrt() + kRule.eps);
  if (p.average.defined()) p.average = at::lerp(p.average, p.weight, 1 - kRule.ema_decay);
}

void expect_equal(const PassParameter& seen, const PassParameter& exact, double bound) {
  EXPECT_LE(relative_rms(seen.weight, exact.weight), bound);
  EXPECT_LE(relative_rms(seen.first, exact.first), bound);
  EXPECT_LE(relative_rms(seen.second, exact.second), bound);
  if (!seen.average.defined()) return;
  EXPECT_LE(relative_rms(seen.average, exact.average), bound);
  EXPECT_TRUE(at::equal(seen.copy, seen.weight.to(at::kFloat).to(at::kBFloat16)));
}

TEST(OnePass, EqualsTheFormulas) {
  for (const auto& [type, bound] : {std::pair(at::kDouble, 1e-12), std::pair(at::kFloat, 1e-6)})
    for (const double scale : {0., 1024.}) {
      std::vector<PassParameter> seen = parameters(type), exact;
      for (const PassParameter& p : parameters(at::kDouble)) exact.push_back(p);
      for (std::size_t i = 0; i < exact.size(); ++i) // what the type rounds is not the update's
        exact[i].weight = seen[i].weight.to(at::kDouble).clone(), exact[i].average = at::Tensor();
      exact[0].average = exact[0].weight.clone();
      const PassScalars s = scalars(scale);
      OnePass pass;
      for (int step = 1; step <= 3; ++step) {
        double squares = 0;
        for (std::size_t i = 0; i < seen.size(); ++i) {
          const double size = step == 2 ? 1e-4 : 1; // not clipped
          seen[i].gradient = drawn(seen[i].weight.sizes(), static_cast<std::uint64_t>(step), type)
                                 .mul_(size * (scale > 0 ? scale : 1));
          exact[i].gradient = seen[i].gradient;
          squares += (seen[i].gradient.to(at::kDouble) / (scale > 0 ? scale : 1))
                         .square()
                         .sum()
                         .item<double>();
        }
        const double norm = std::sqrt(squares);
        EXPECT_NEAR(pass.run(seen, s).item<double>() / norm, 1, bound);
        for (PassParameter& p : exact)
          expect_update(p, std::min(1., 1 / (norm + 1e-6)), step, scale > 0 ? scale : 1);
        for (std::size_t i = 0; i < seen.size(); ++i) expect_equal(seen[i], exact[i], bound);
        EXPECT_EQ(s.steps.item<double>(), step);
      }
    }
}

TEST(OnePass, AnOverflowMovesTheAverageAlone) {
  for (const double bad : {std::numeric_limits<double>::infinity(), std::nan("")}) {
    std::vector<PassParameter> seen = parameters(at::kFloat);
    const PassScalars s = scalars(8);
    OnePass pass;
    (void)pass.run(seen, s);
    seen[0].average.zero_();
    std::vector<PassParameter> before = seen;
    for (PassParameter& p : before)
      for (at::Tensor* x : {&p.weight, &p.first, &p.second}) *x = x->clone();
    before[0].copy = seen[0].copy.clone();
    seen[1].gradient[60] = bad;
    (void)pass.run(seen, s);
    EXPECT_EQ(s.found_inf.item<double>(), 1);
    EXPECT_EQ(s.steps.item<double>(), 1);
    for (std::size_t i = 0; i < seen.size(); ++i) {
      EXPECT_TRUE(at::equal(seen[i].weight, before[i].weight));
      EXPECT_TRUE(at::equal(seen[i].first, before[i].first));
      EXPECT_TRUE(at::equal(seen[i].second, before[i].second));
    }
    EXPECT_TRUE(at::equal(seen[0].copy, before[0].copy));
    EXPECT_TRUE(at::allclose(seen[0].average, before[0].weight * (1 - kRule.ema_decay)));
  }
}

// --- The trainer ---------------------------------------------------------------------------------

class UpdateForm : public testing::TestWithParam<UpdatePass> {};

INSTANTIATE_TEST_SUITE_P(All,
                         UpdateForm,
                         testing::Values(UpdatePass::PerParameter,
                                         UpdatePass::Foreach,
                                         UpdatePass::OnePass));

TEST_P(UpdateForm, FiftyStepsEndWhereTheDefaultEnds) {
  TrainConfig config = small_config(), other = config;
  other.update_pass = GetParam();
  Trainer a(config), b(other);
  const std::vector<Batch> batches = ragged_batches(config, 5);
  for (std::size_t i = 0; i < 50; ++i) {
    const double x = a.step({batches[i % 5]}).loss(), y = b.step({batches[i % 5]}).loss();
    ASSERT_NEAR(x, y, 2e-4 * x) << i;
  }
  EXPECT_NEAR(a.evaluate(batches).nats_per_token, b.evaluate(batches).nats_per_token, 1e-4);
}

TEST_P(UpdateForm, ASkippedStepChangesNoBitAndTrainingGoesOn) {
  TrainConfig config = small_config();
  config.update_pass = GetParam();
  config.grad_scaler = GradScaler::Dynamic;
  config.init_scale = std::ldexp(1.0, 127);
  Trainer trainer(config);
  NamedTensors before;
  for (const auto& [name, tensor] : trainer.state_tensors())
    before.emplace_back(name, tensor.clone());
  (void)trainer.step({ragged_batch(config)});
  EXPECT_EQ(trainer.skipped_steps(), 1);
  const NamedTensors now = trainer.state_tensors();
  for (std::size_t i = 0; i < now.size(); ++i)
    if (!now[i].first.starts_with("scaler.")) {
      EXPECT_TRUE(at::equal(now[i].second, before[i].second)) << now[i].first;
    }
  for (int i = 0; i < 12; ++i) (void)trainer.step({ragged_batch(config)});
  EXPECT_LT(trainer.skipped_steps(), 13);
  EXPECT_FALSE(at::equal(trainer.state_tensors()[0].second, before[0].second));
}

TEST_P(UpdateForm, AnEvaluationByPointersAndALoadLeaveTrainingAsItWas) {
  TrainConfig config = small_config();
  config.update_pass = GetParam();
  config.ema_swap = EmaSwap::PointerSwap;
  const std::vector<Batch> batches = ragged_batches(config, 4);
  Trainer with(config), without(config);
  NamedTensors saved;
  for (const auto& [name, tensor] : with.state_tensors()) saved.emplace_back(name, tensor.clone());
  (void)with.step({batches[3]});
  with.load_state_tensors(saved);
  with.set_step_index(0);
  for (const Batch& batch : batches) {
    (void)with.evaluate(batches);
    EXPECT_EQ(with.step({batch}).loss(), without.step({batch}).loss());
  }
}

TEST(UpdateForms, PerParameterAveragesAreBitEqualAfterFiftySteps) {
  TrainConfig config = small_config(), operators = config;
  operators.update_pass = UpdatePass::PerParameter;
  const std::vector<Parameter> weights{
      {"w", drawn({40, 30}, 4, at::kFloat).requires_grad_(), true}};
  Ema a(weights, config), b(weights, operators);
  for (std::uint64_t i = 0; i < 50; ++i) {
    {
      const at::NoGradGuard no_grad;
      weights[0].tensor.add_(drawn({40, 30}, i, at::kFloat), 1e-2);
    }
    a.update(), b.update();
  }
  EXPECT_TRUE(at::equal(a.state()[0].second, b.state()[0].second));
}

TEST(UpdateForms, OneStepOfOnePassHasNoStageOfItsOwnForTheAverage) {
  TrainConfig config = small_config();
  const auto seen = [&](UpdatePass pass) {
    config.update_pass = pass;
    return record_code_path(*optimizations().find("update_pass"), config, {ragged_batch(config)});
  };
  EXPECT_EQ(seen(UpdatePass::Foreach).spans.count("ema/update"), 1U);
  EXPECT_EQ(seen(UpdatePass::OnePass).spans.count("ema/update"), 0U);
}

// A wrong update must fail the gate: another decay of the average, another epsilon.
TEST(UpdateGates, RejectAnotherUpdate) {
  const TrainConfig reference = small_config();
  for (const auto& [key, value] : {std::pair("beta2", .951),
                                   std::pair("weight_decay", .2),
                                   std::pair("ema_decay", .95),
                                   std::pair("grad_clip", .9)}) {
    TrainConfig other = reference;
    value_or_throw(set_key(other, key, nlohmann::json(value)));
    bool rejected = false;
    for (const GateResult& gate : update_gates(reference, other)) rejected |= !gate.passed;
    EXPECT_TRUE(rejected) << key;
  }
}

// --- Kept copies ---------------------------------------------------------------------------------

TEST(KeptLinear, EqualsTheLinearInDouble) {
  const at::Tensor dy = drawn({37, 40}, 3, at::kDouble);
  const auto results = [&](bool kept) {
    const at::Tensor x = drawn({37, 24}, 1, at::kDouble).requires_grad_(),
                     w = drawn({40, 24}, 2, at::kDouble).requires_grad_();
    const at::Tensor y = kept ? kept_linear(x, w, w.detach().clone()) : at::linear(x, w);
    y.backward(dy);
    return std::vector<at::Tensor>{y.detach(), x.grad(), w.grad()};
  };
  const auto seen = results(true), expected = results(false);
  for (std::size_t i = 0; i < seen.size(); ++i)
    EXPECT_LE(relative_rms(seen[i], expected[i]), 1e-14) << i;
}

// Operands rounded to bf16 as autocast does; the weight's gradient is not rounded again.
TEST(KeptLinear, GivesTheGradientOfAWeightInFp32) {
  const at::Tensor x = drawn({37, 24}, 1, at::kFloat).requires_grad_(),
                   w = drawn({40, 24}, 2, at::kFloat).requires_grad_();
  const at::Tensor dy = drawn({37, 40}, 3, at::kBFloat16), half = w.detach().to(at::kBFloat16);
  const at::Tensor y = kept_linear(x, w, half);
  y.backward(dy);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_EQ(x.grad().scalar_type(), at::kFloat);
  EXPECT_EQ(w.grad().scalar_type(), at::kFloat);
  const auto wide = [](const at::Tensor& t) {
    return t.detach().to(at::kBFloat16).to(at::kDouble);
  };
  EXPECT_LE(relative_rms(w.grad(), at::mm(wide(dy).t(), wide(x))), 1e-6);
  EXPECT_LE(relative_rms(x.grad(), at::mm(wide(dy), wide(w))), 4e-3);
  EXPECT_LE(relative_rms(y, at::mm(wide(x), wide(w).t())), 4e-3);
}

class KeptForm : public testing::TestWithParam<std::tuple<EmaSwap, UpdatePass, Precision>> {};

INSTANTIATE_TEST_SUITE_P(
    All,
    KeptForm,
    testing::Combine(
        testing::Values(EmaSwap::CloneCopy, EmaSwap::PointerSwap, EmaSwap::Exchange),
        testing::Values(UpdatePass::PerParameter, UpdatePass::Foreach, UpdatePass::OnePass),
        testing::Values(Precision::Bf16, Precision::Fp8)));

// Evaluation on the average with kept copies gives the loss that casts give, whatever the swap; and
// copies follow steps, the swap and a load.
TEST_P(KeptForm, CopiesAreTheWeightsInUse) {
  TrainConfig config = small_config();
  std::tie(config.ema_swap, config.update_pass, config.precision) = GetParam();
  TrainConfig kept = config;
  kept.weights16 = Weights16::Kept;
  kept.loss_chunk_mib = config.loss_chunk_mib = config.ema_swap == EmaSwap::Exchange ? 64 : 0;
  for (const GateResult& gate : copies_gates(config, kept, ragged_batches(config, 2))) {
    EXPECT_TRUE(gate.passed) << gate.name << ": " << gate.value << " (" << gate.detail << ")";
    if (gate.name == "math/average_loss") {
      EXPECT_EQ(gate.value, 0);
    }
  }
}

// Every product's weight has a copy, and nothing else: the head and 14 linears.
TEST(KeptWeights, AreThoseOfProducts) {
  TrainConfig config = small_config();
  config.precision = Precision::Bf16;
  config.weights16 = Weights16::Kept;
  Trainer trainer(config);
  EXPECT_EQ(trainer.kept_weights()->size(), 0U);
  (void)trainer.step({ragged_batch(config)});
  EXPECT_EQ(trainer.kept_weights()->size(), 15U);
  for (const Parameter& p : trainer.parameters())
    EXPECT_EQ(trainer.kept_weights()->find(p.tensor).defined(), p.decay && p.name != "embedding")
        << p.name;
}

// The gate sees a copy that did not follow.
TEST(CopiesGates, RejectAWeightThatWasChangedBehindItsCopy) {
  TrainConfig config = small_config();
  config.precision = Precision::Bf16;
  config.weights16 = Weights16::Kept;
  Trainer trainer(config);
  const Batch batch = ragged_batch(config);
  (void)trainer.step({batch});
  const at::Tensor before = trainer.logits(batch);
  {
    const at::NoGradGuard no_grad;
    for (const Parameter& p : trainer.parameters())
      if (p.name == "head") p.tensor.mul_(2);
  }
  EXPECT_TRUE(at::equal(trainer.logits(batch), before)) << "the product did not take the copy";
}

TEST(KeptWeights, NeedProductsIn16Bits) {
  TrainConfig config;
  config.weights16 = Weights16::Kept;
  const Result<TrainConfig> refused = resolve(config);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("'weights16'"), std::string::npos);
  config.precision = Precision::Bf16;
  EXPECT_TRUE(resolve(config));
}

} // namespace update_pass_test
} // namespace assay
