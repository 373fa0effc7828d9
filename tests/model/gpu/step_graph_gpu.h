// Trainings with and without CUDA graphs that the tests of graphs on a GPU share. Without a GPU
// these tests fail.
#pragma once

#include <ATen/cuda/CUDAContext.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "model/gates/gates.h"
#include "tests/model/model_fixture.h"

namespace assay::testing_model {

inline constexpr int kWarmUp = static_cast<int>(StepGraphs::kWarmUpSteps);

// Layers of the delta rule alone: every kernel of it adds up in a fixed order, so eager and
// replayed steps have the same bits. With an M flash attention's atomics are in it.
inline TrainConfig fused_config(const std::string& pattern = "GG",
                                Attention path = Attention::Packed) {
  TrainConfig config;
  config.preset = "tiny";
  config.pattern = pattern;
  config.device = Device::Cuda;
  config.precision = Precision::Bf16;
  config.attention = path;
  config.delta_form = DeltaForm::Fused;
  config.delta_inputs = assay::DeltaInputs::Fused;
  config.norms = Norms::Fused;
  config.ffn_gate = FfnGate::Fused;
  config.loss_chunk_mib = 64;
  config.steps = 40;
  config.warmup_steps = 20; // longer than a test: the learning rate changes in every step
  return value_or_throw(resolve(config));
}

inline TrainConfig with_graph(TrainConfig config) {
  config.step_graph = StepGraph::On;
  return value_or_throw(resolve(config));
}

// Documents that end after every `length` tokens, from an offset that differs by `seed`.
inline Batch batch_of(const TrainConfig& config, std::uint64_t seed, std::int32_t length) {
  std::vector<std::int32_t> borders;
  const auto tokens = static_cast<std::int32_t>(config.seq_len * config.batch_rows);
  for (std::int32_t end = 1 + static_cast<std::int32_t>(seed) % length; end < tokens; end += length)
    borders.push_back(end);
  return random_batch(config, seed, borders);
}

inline at::Tensor flat(const NamedTensors& tensors) {
  std::vector<at::Tensor> parts;
  for (const auto& [name, tensor] : tensors) parts.push_back(tensor.reshape(-1));
  return at::cat(parts);
}

struct Trained {
  std::vector<double> losses, norms, rates;
  at::Tensor state; // weights, moments, EMA, scaler
};

// One step a batch; all results are read at the end, as a visit does.
inline Trained train(Trainer& trainer, const std::vector<Batch>& batches) {
  std::vector<StepResult> results;
  for (const Batch& batch : batches) results.push_back(trainer.step({batch}));
  Trained run;
  for (const StepResult& result : results) {
    run.losses.push_back(result.loss());
    run.norms.push_back(result.grad_norm());
    run.rates.push_back(result.lr);
  }
  run.state = flat(trainer.state_tensors()).clone();
  return run;
}

inline Trained train(const TrainConfig& config, const std::vector<Batch>& batches) {
  Trainer trainer(config);
  return train(trainer, batches);
}

inline void expect_same_bits(const Trained& actual, const Trained& expected) {
  EXPECT_EQ(actual.losses, expected.losses);
  EXPECT_EQ(actual.norms, expected.norms);
  EXPECT_EQ(actual.rates, expected.rates);
  EXPECT_TRUE(at::equal(actual.state, expected.state))
      << "relative RMS of the state: " << relative_rms(actual.state, expected.state);
  EXPECT_TRUE(at::isfinite(expected.state).all().item<bool>());
}

inline std::vector<Batch>
batches_of(const TrainConfig& config, int count, std::int32_t length = 37) {
  std::vector<Batch> batches;
  for (int i = 0; i < count; ++i)
    batches.push_back(batch_of(config, static_cast<std::uint64_t>(20 + i), length + i % 5));
  return batches;
}

// After eight steps. `least`: how far apart runs may be that none of a few eager runs shows.
inline void expect_as_near_as_eager_runs(const TrainConfig& off, double least = 1e-12) {
  const std::vector<Batch> batches = batches_of(off, 8);
  const Trained eager = train(off, batches);
  double own = 0;
  for (int i = 0; i < 4; ++i)
    own = std::max(own, relative_rms(train(off, batches).state, eager.state));
  const double bound = std::max(2 * own, least);
  const Trained graph = train(with_graph(off), batches);
  EXPECT_LE(relative_rms(graph.state, eager.state), bound) << own;
  std::vector<Batch> kept = batches; // by a graph whose last replay takes the batch before
  kept.back() = kept[kept.size() - 2];
  EXPECT_GT(relative_rms(train(off, kept).state, eager.state), 3 * bound);
  for (std::size_t i = 0; i < eager.losses.size(); ++i)
    EXPECT_NEAR(graph.losses[i], eager.losses[i], 2e-3 * eager.losses[i]) << i;
}

class StepGraphGpu : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_TRUE(at::cuda::is_available()) << "these tests need a CUDA device";
    at::globalContext().lazyInitDevice(at::kCUDA); // streams exist only afterwards
  }
};

} // namespace assay::testing_model
