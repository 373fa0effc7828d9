// The family `gpt` on a GPU: against the CPU, its rows' gates, a step that does not wait, and the
// step as one graph.
#include <gtest/gtest.h>

#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAStream.h>

#include "model/gates/gates.h"
#include "tests/model/gpt/gpt_fixture.h"
#include "tests/model/gpu/no_wait.h"
#include "tests/model/model_fixture.h"

namespace assay {
namespace gpt_gpu_test {

using namespace testing_model;

TrainConfig on_gpu(Precision precision) {
  TrainConfig config = small_gpt();
  config.device = Device::Cuda;
  config.precision = precision;
  return config;
}

class GptGpu : public testing::Test {
protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  }
};

TEST_F(GptGpu, LogitsAndGradientsEqualTheCpus) {
  for (const Precision precision : {Precision::Fp32, Precision::Bf16})
    for (const Attention path : {Attention::Varlen, Attention::Packed, Attention::MaskDense}) {
      TrainConfig cpu = small_gpt(), gpu = on_gpu(precision);
      cpu.attention = gpu.attention = path;
      Trainer a(cpu), b(gpu);
      const Batch on_cpu = ragged_batch(cpu), there = ragged_batch(gpu);
      const bool half = precision == Precision::Bf16;
      EXPECT_LE(relative_rms(b.logits(there, path).cpu(), a.logits(on_cpu, path)),
                half ? 2e-2 : 1e-5);
      const auto x = a.gradients(on_cpu), y = b.gradients(there);
      for (std::size_t i = 0; i < x.size(); ++i)
        EXPECT_LE(relative_rms(y[i].cpu(), x[i]), half ? 3e-2 : 2e-4) << a.parameters()[i].name;
    }
}

class GptGpuLevel : public testing::TestWithParam<std::tuple<RowLevel, Precision>> {};

TEST_P(GptGpuLevel, PassesItsGatesAndShowsItsSpan) {
  if (!at::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  const auto& [at, precision] = GetParam();
  TrainConfig base = gpt_for(*at.row);
  base.device = Device::Cuda;
  base.precision = precision;
  if (!has_needs(at, base)) GTEST_SKIP() << "the row needs another configuration";
  TrainConfig reference = base, level = base;
  at.row->levels.front().apply(reference);
  at.level->apply(level);
  const std::vector<Batch> batches = ragged_batches(reference, 4);
  bool passed = true;
  for (const GateResult& gate : run_gates(*at.row, reference, level, batches)) {
    passed = passed && gate.passed;
    EXPECT_TRUE(gate.passed || at.level->wrong)
        << gate.name << ": " << gate.value << " > " << gate.bound << " (" << gate.detail << ")";
  }
  EXPECT_EQ(passed, !at.level->wrong);
  const CodePath seen = record_code_path(*at.row, level, batches);
  EXPECT_TRUE(seen.spans.count(at.level->span) > 0 || seen.counters.count(at.level->span) > 0)
      << at.level->span;
}

std::string level_name(const testing::TestParamInfo<GptGpuLevel::ParamType>& info) {
  const auto& [at, precision] = info.param;
  return at.row->name + "_" + at.level->name + (precision == Precision::Fp32 ? "_fp32" : "_bf16");
}

INSTANTIATE_TEST_SUITE_P(All,
                         GptGpuLevel,
                         testing::Combine(testing::ValuesIn(gpt_row_levels()),
                                          testing::Values(Precision::Fp32, Precision::Bf16)),
                         level_name);

bool board_has_cudnn() {
  return at::cuda::getCurrentDeviceProperties()->major >= 9;
}

// Every fused form, as a training on a GPU takes them.
TrainConfig fastest(Attention path, Epilogue epilogue = Epilogue::None) {
  TrainConfig config = on_gpu(Precision::Bf16);
  config.attention = path;
  config.head_dim = 64;
  config.mla_attention = board_has_cudnn() ? MlaAttention::Cudnn : MlaAttention::FlashPadded;
  config.norms = Norms::Fused;
  config.residual = Residual::Bf16;
  config.ffn_gate = FfnGate::Fused;
  config.epilogue = epilogue;
  config.loss_chunk_mib = 64;
  config.weights16 = Weights16::Kept;
  config.update_pass = UpdatePass::OnePass;
  return value_or_throw(resolve(config));
}

constexpr Epilogue kEpilogues[] = {
    Epilogue::None, Epilogue::Gelu, Epilogue::GeluBias, Epilogue::All};

TEST_F(GptGpu, AStepDoesNotWaitForTheDevice) {
  for (const Epilogue epilogue : kEpilogues) {
    const TrainConfig config = fastest(Attention::Varlen, epilogue);
    expect_no_wait(config, ragged_batches(config, 1));
  }
}

void expect_one_graph(const TrainConfig& off) {
  const Optimization& row = *optimizations().find("step_graph");
  TrainConfig on = off;
  on.step_graph = StepGraph::On;
  on = value_or_throw(resolve(on));
  const std::vector<Batch> batches = ragged_batches(off, 4);
  for (const GateResult& gate : run_gates(row, off, on, batches))
    EXPECT_TRUE(gate.passed) << gate.name << ": " << gate.value << " > " << gate.bound << " ("
                             << gate.detail << ")";
  const CodePath seen = record_code_path(row, on, batches);
  EXPECT_EQ(seen.counters.at("graph/replay"), 1);
  EXPECT_EQ(seen.counters.count("graph/eager_step"), 0U);
  EXPECT_EQ(seen.counters.count("fallback/epilogue"), 0U);
}

TEST_F(GptGpu, TheStepIsOneGraph) {
  for (const Attention path : {Attention::Packed, Attention::Varlen})
    for (const Epilogue epilogue : kEpilogues) expect_one_graph(fastest(path, epilogue));
}

} // namespace gpt_gpu_test
} // namespace assay
