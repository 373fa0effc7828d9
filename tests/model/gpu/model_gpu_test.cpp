// What only a CUDA device can show: our kernels, the varlen kernels against the CPU, and every
// row's gates on the GPU.
#include <gtest/gtest.h>

#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <chrono>

#include "core/statistics/statistics.h"
#include "core/stopwatch.h"
#include "kernels/cuda_check.h"
#include "kernels/exchange.h"
#include "kernels/spin.h"
#include "model/config/fast_defaults.h"
#include "model/gates/gates.h"
#include "model/memory/peak_memory.h"
#include "model/training/device_peaks.h"
#include "model/training/global_state.h"
#include "tests/bench/l2_read.h"
#include "tests/model/gpu/no_wait.h"
#include "tests/model/model_fixture.h"
#include "tests/model/nsa/nsa_fixture.h"

namespace assay {
namespace model_gpu_test {

using testing_model::expect_no_wait;
using testing_model::ragged_batches;
using testing_model::small_config;

class Gpu : public testing::Test {
protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  }
};

TEST_F(Gpu, ExchangeSwapsEveryByteOfAnySize) {
  for (const std::int64_t size : {0, 1, 15, 16, 17, 4095, 1 << 20, (1 << 24) + 3}) {
    const auto options = at::TensorOptions().device(at::kCUDA).dtype(at::kByte);
    const at::Tensor a = at::randint(0, 256, {size}, options),
                     b = at::randint(0, 256, {size}, options);
    const at::Tensor old_a = a.clone(), old_b = b.clone();
    launch_exchange(a.mutable_data_ptr(),
                    b.mutable_data_ptr(),
                    static_cast<std::size_t>(size),
                    c10::cuda::getCurrentCUDAStream().stream());
    ASSAY_CUDA(cudaGetLastError());
    EXPECT_TRUE(at::equal(a, old_b) && at::equal(b, old_a)) << size;
  }
}

// The sink is written if and only if every word is all ones, so a word left out would show.
TEST_F(Gpu, TheL2ReaderReadsEveryWord) {
  for (const std::int64_t words : {4, 1000, 5'000'004}) {
    const auto options = at::TensorOptions().device(at::kCUDA).dtype(at::kInt);
    const at::Tensor data = at::full({words}, -1, options);
    const auto all_ones = [&] {
      const at::Tensor sink = at::zeros({1}, options);
      launch_l2_read(data.const_data_ptr(),
                     words * 4,
                     2,
                     reinterpret_cast<std::uint32_t*>(sink.mutable_data_ptr<std::int32_t>()),
                     c10::cuda::getCurrentCUDAStream().stream());
      ASSAY_CUDA(cudaGetLastError());
      return sink.item<std::int32_t>() == 0;
    };
    EXPECT_TRUE(all_ones()) << words;
    for (const std::int64_t place : {std::int64_t{0}, words / 2, words - 1}) {
      data[place] = -2;
      EXPECT_FALSE(all_ones()) << place << " of " << words;
      data[place] = -1;
    }
  }
}

TEST_F(Gpu, SpinWaitsForItsTime) {
  const auto wait_ms = [](std::int64_t nanoseconds) {
    c10::cuda::device_synchronize();
    const auto start = std::chrono::steady_clock::now();
    launch_spin(nanoseconds, c10::cuda::getCurrentCUDAStream().stream());
    ASSAY_CUDA(cudaGetLastError());
    c10::cuda::device_synchronize();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
        .count();
  };
  (void)wait_ms(1000);
  EXPECT_NEAR(wait_ms(20'000'000), 20.0, 1.0);
}

class GpuLevel : public testing::TestWithParam<std::tuple<std::string, std::string, int>> {};

std::vector<std::tuple<std::string, std::string, int>> all_levels() {
  std::vector<std::tuple<std::string, std::string, int>> all;
  for (const Optimization& row : optimizations().all()) {
    if (row.needs_ranks) continue;                // one process here
    if (row.unit == Unit::PipelineStep) continue; // data/loader_rows_test.cpp
    if (row.name == "step_graph") continue;       // step_graph_gpu_test.cpp
    for (const Level& level : row.levels)
      for (const Precision precision : {Precision::Fp32, Precision::Bf16})
        all.emplace_back(row.name, level.name, static_cast<int>(precision));
  }
  return all;
}

bool meets_needs(const TrainConfig& config, const Optimization& row) {
  return std::ranges::all_of(row.needs, [&](const Need& need) { return meets(config, row, need); });
}

TEST_P(GpuLevel, PassesItsGatesAndShowsItsSpan) {
  if (!at::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  const auto& [row_name, level_name, precision] = GetParam();
  const Optimization& row = *optimizations().find(row_name);
  TrainConfig base = testing_model::small_config_for(row);
  base.device = Device::Cuda;
  base.precision = static_cast<Precision>(precision);
  base.bf16_delta_inputs = row_name == "bf16_guard";
  if (!meets_needs(base, row)) base.head_dim = 32, base.chunk_size = 64; // kernels of fixed shapes
  if (!meets_needs(base, row)) GTEST_SKIP() << "the row needs another precision";
  if (row_name == "mla_attention") base.head_dim = 64, base.rope_dim = 32;
  TrainConfig reference = base, level = base;
  row.levels.front().apply(reference);
  row.level(level_name)->apply(level);
  if (const Result<TrainConfig> resolved = resolve(level); !resolved)
    GTEST_SKIP() << resolved.error().message;
  const std::vector<Batch> batches = ragged_batches(reference, 4);
  const std::uint64_t state = global_state_hash();
  const bool wrong = row.level(level_name)->wrong;
  bool passed = true;
  for (const GateResult& gate : run_gates(row, reference, level, batches)) {
    passed = passed && gate.passed;
    EXPECT_TRUE(gate.passed || wrong)
        << gate.name << ": " << gate.value << " > " << gate.bound << " (" << gate.detail << ")";
    std::printf("    %s %.3g <= %.3g: %s\n",
                gate.name.c_str(),
                gate.value,
                gate.bound,
                gate.detail.c_str());
  }
  EXPECT_EQ(passed, !wrong);
  const CodePath seen = record_code_path(row, level, ragged_batches(level, 4));
  EXPECT_EQ(state, global_state_hash());
  const std::string& span = row.level(level_name)->span;
  EXPECT_TRUE(span.empty() || seen.spans.count(span) > 0 || seen.counters.count(span) > 0) << span;
  for (const auto& [name, times] : seen.counters)
    std::printf("    %s = %ld\n", name.c_str(), static_cast<long>(times));
}

INSTANTIATE_TEST_SUITE_P(All, GpuLevel, testing::ValuesIn(all_levels()), [](const auto& row) {
  return std::get<0>(row.param) + "_" + std::get<1>(row.param) +
         (static_cast<Precision>(std::get<2>(row.param)) == Precision::Fp32 ? "_fp32" : "_bf16");
});

TEST_F(Gpu, Fp32LogitsAndGradientsEqualTheCpus) {
  TrainConfig cpu = small_config(), gpu = cpu;
  gpu.device = Device::Cuda;
  Trainer a(cpu), b(gpu);
  const Batch on_cpu = ragged_batches(cpu, 1).front(), on_gpu = ragged_batches(gpu, 1).front();
  EXPECT_LE(relative_rms(b.logits(on_gpu).cpu(), a.logits(on_cpu)), 1e-5);
  const auto x = a.gradients(on_cpu), y = b.gradients(on_gpu);
  for (std::size_t i = 0; i < x.size(); ++i)
    EXPECT_LE(relative_rms(y[i].cpu(), x[i]), 2e-4) << a.parameters()[i].name;
}

// A step makes no host synchronization: the host returns while the device still works on a planted
// wait.
TEST_F(Gpu, AStepDoesNotWaitForTheDevice) {
  TrainConfig config = small_config();
  config.device = Device::Cuda;
  config.grad_scaler = GradScaler::Dynamic;
  expect_no_wait(config, ragged_batches(config, 1));
}

TEST_F(Gpu, PeakMemorySeesTheAllocator) {
  PeakMemory memory(Device::Cuda);
  const std::int64_t before = current_bytes(Device::Cuda);
  { const at::Tensor passing = at::zeros({1 << 22}, at::TensorOptions().device(at::kCUDA)); }
  EXPECT_EQ(memory.start_bytes(), before);
  EXPECT_NEAR(static_cast<double>(memory.peak_bytes() - memory.start_bytes()), 16 << 20, 4096);
}

// Same layout, inputs and chunks on both devices, fp64: outputs, choice of blocks and gradients.
TEST_F(Gpu, SparseAttentionEqualsTheCpu) {
  const std::vector<std::int32_t> cu{0, 1, 18, 82, 147, 400};
  const NsaShape shape{8, 4, 16, 5, 40};
  const auto run = [&](at::Device device) {
    const auto layout =
        std::make_shared<const NsaLayout>(make_nsa_layout(segments_of(cu, device), shape, 64));
    NsaInputs in = testing_model::random_nsa_inputs(cu.back(), 8, 1);
    for (at::Tensor* x : testing_model::nsa_tensors(in)) *x = x->to(device).requires_grad_();
    const at::Tensor out = nsa_attention(in, layout);
    out.square().sum().backward();
    std::vector<at::Tensor> seen{
        out, nsa_select_blocks(in.q, nsa_compress(in.k_cmp, layout), *layout, in.scale)};
    for (at::Tensor* x : testing_model::nsa_tensors(in)) seen.push_back(x->grad());
    return seen;
  };
  const std::vector<at::Tensor> expected = run(at::kCPU), actual = run(at::kCUDA);
  EXPECT_TRUE(at::equal(actual[1].cpu(), expected[1]));
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_LE(relative_rms(actual[i].cpu(), expected[i]), 1e-10) << i;
}

TEST_F(Gpu, ASparseStepDoesNotWaitForTheDevice) {
  TrainConfig config;
  config.family = "nsa";
  config.pattern = "N"; // few launches: the queue of the device is finite
  config.device = Device::Cuda;
  config.precision = Precision::Bf16;
  config = value_or_throw(resolve(config));
  expect_no_wait(config, {testing_model::random_batch(config, 3, {50, 70, 200})});
}

// A host clock around a step, as training scripts have it, measures the launches alone.
TEST_F(Gpu, AClockThatDoesNotWaitReportsAPartOfAStep) {
  std::vector<NamedConfig> fast(1);
  fast[0].config.preset = "base";
  fast[0].config.device = Device::Cuda;
  fast[0].config.precision = Precision::Bf16;
  fast[0].config.seq_len = 2048;
  fast[0].config.batch_rows = 8;
  fast[0].named = {"preset", "device", "precision", "seq_len", "batch_rows"};
  (void)take_fast_defaults(fast, nullptr, 0);
  const TrainConfig config = value_or_throw(resolve(fast[0].config));
  const std::vector<Batch> batches = ragged_batches(config, 1);
  Trainer trainer(config);
  for (int i = 0; i < 3; ++i) (void)trainer.step(batches);
  std::vector<double> shares;
  for (int i = 0; i < 5; ++i) {
    c10::cuda::device_synchronize();
    const auto start = std::chrono::steady_clock::now();
    (void)trainer.step(batches);
    const double without_wait = seconds_since(start);
    c10::cuda::device_synchronize();
    shares.push_back(without_wait / seconds_since(start));
  }
  EXPECT_LT(median(shares), 0.75); // 0.4 to 0.52, by the host
}

// Orders of magnitude that any board since 2020 keeps, and the order of the types.
TEST_F(Gpu, PeaksAreMeasured) {
  const std::uint64_t state = global_state_hash();
  const MeasuredPeaks peaks = measure_peaks(Precision::Bf16);
  EXPECT_GT(peaks.fp32_flops_per_second, 1e12);
  EXPECT_GT(peaks.flops_per_second, peaks.fp32_flops_per_second);
  EXPECT_LT(peaks.flops_per_second, 1e16);
  EXPECT_EQ(peaks.fp8_flops_per_second, 0);
  EXPECT_GT(peaks.bytes_per_second, 1e11);
  EXPECT_LT(peaks.bytes_per_second, 1e14);
  EXPECT_GT(peaks.launch_seconds, 1e-7);
  EXPECT_LT(peaks.launch_seconds, 1e-4);
  EXPECT_EQ(global_state_hash(), state) << "measuring draws no random numbers";
}

} // namespace model_gpu_test
} // namespace assay
