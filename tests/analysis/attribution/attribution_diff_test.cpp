#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "core/statistics/statistics.h"
#include "core/trace/kernel_name.h"
#include "experiments/attribution/attribution.h"
#include "experiments/attribution/kernel_class.h"
#include "tests/analysis/attribution/trace_builder.h"

namespace assay {
namespace attribution_diff_test {

using synthetic::kMicro;
using synthetic::TraceBuilder;

const DiffRow& row(const std::vector<DiffRow>& rows, const std::string& name) {
  for (const DiffRow& one : rows)
    if (one.name == name) return one;
  throw std::out_of_range("no row " + name);
}

struct Kernel {
  const char* name;
  double us, noise;
};

// Ten rounds of one step that launches `kernels` one after the other in forward.
Trace gpu_trace(const std::string& variant,
                const std::vector<Kernel>& kernels,
                std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  TraceBuilder b(variant, true);
  std::int64_t at = 1000;
  for (int round = 0; round < 10; ++round) {
    const std::int64_t start = at;
    std::int64_t device = at + 50;
    b.span("forward", start, start + 40);
    for (const Kernel& kernel : kernels) {
      const std::int64_t end =
          device +
          std::max<std::int64_t>(1, std::llround(kernel.us + kernel.noise * normal(random)));
      b.kernel(kernel.name, start + 2, device, end);
      device = end;
    }
    b.step(start, start + 40, round, 0);
    b.call("cudaDeviceSynchronize", start + 41, device);
    at = device + 500;
  }
  return b.take();
}

TEST(TraceDiff, KernelsByStatus) {
  const Explanation result = explain(gpu_trace("a",
                                               {{"gemm", 5000, 10},
                                                {"dense_mask", 300, 2},
                                                {"shrinks", 400, 3},
                                                {"grows", 400, 3},
                                                {"noisy", 400, 200},
                                                {"tiny", 1, 0}},
                                               1),
                                     gpu_trace("b",
                                               {{"gemm", 5000, 10},
                                                {"flash_varlen", 120, 2},
                                                {"shrinks", 350, 3},
                                                {"grows", 460, 3},
                                                {"noisy", 400, 200},
                                                {"tiny", 2, 0}},
                                               2),
                                     std::nullopt);
  EXPECT_EQ(result.traced_as, "device");
  EXPECT_EQ(row(result.kernels, "gemm").status, DiffStatus::Same);
  EXPECT_EQ(row(result.kernels, "dense_mask").status, DiffStatus::Removed);
  EXPECT_EQ(row(result.kernels, "flash_varlen").status, DiffStatus::Added);
  EXPECT_EQ(row(result.kernels, "shrinks").status, DiffStatus::Faster);
  EXPECT_EQ(row(result.kernels, "grows").status, DiffStatus::Slower);
  EXPECT_EQ(row(result.kernels, "noisy").status, DiffStatus::Unclear);
  EXPECT_EQ(row(result.kernels, "tiny").status, DiffStatus::Same); // sure, and 1 us of 6.5 ms
  EXPECT_EQ(result.kernels.front().name, "dense_mask");
  EXPECT_NEAR(row(result.kernels, "shrinks").delta_ns, -50e3, 4e3);
  EXPECT_NEAR(row(result.kernels, "grows").delta_ns, 60e3, 4e3);
  EXPECT_EQ(row(result.kernels, "flash_varlen").kernel_class, "attention");
  double sum = 0;
  for (const DiffRow& one : result.kernels) sum += one.delta_ns;
  for (const StageDelta& stage : result.waterfall.stages)
    if (stage.stage == Stage::Forward) {
      EXPECT_NEAR(sum, stage.delta_ns, 1e-3);
    }
}

TEST(TraceDiff, HiddenTimeIsNotCountedTwice) {
  const auto trace = [](const char* variant, int comm) {
    TraceBuilder b(variant, true);
    for (int round = 0; round < 3; ++round) {
      const int at = 1000 * (round + 1);
      b.step(at, at + 100, round, 0);
      b.span("backward", at, at + 100);
      b.kernel("gemm", at + 1, at + 10, at + 60);
      b.kernel("ncclDevKernel_AllReduce", at + 2, at + 20, at + comm, 9);
    }
    return b.take();
  };
  const Explanation result = explain(trace("a", 50), trace("b", 90), std::nullopt);
  const DiffRow& comm = row(result.kernels, "ncclDevKernel_AllReduce");
  EXPECT_EQ(comm.stage, Stage::ExposedComm);
  EXPECT_EQ(comm.a_ns, 0); // hidden by the gemm, yet it ran
  EXPECT_EQ(comm.calls_a, 1);
  EXPECT_NE(comm.status, DiffStatus::Added);
  EXPECT_NEAR(comm.b_ns, 30 * kMicro, 1e-6);
}

TEST(TraceDiff, OperatorsByTheirOwnTimeOnAnyThread) {
  const auto trace = [](const char* variant, int mm) {
    TraceBuilder b(variant);
    for (int round = 0; round < 4; ++round) {
      const int at = 1000 * (round + 1);
      b.step(at, at + 500, round, 0);
      b.span("forward", at, at + 200);
      b.span("backward", at + 200, at + 500);
      b.op("aten::linear", at + 10, at + 110, 0);
      b.op("aten::mm", at + 20, at + 20 + mm, 1);
      b.op("aten::copy_", at + 22, at + 30, 2);
      b.op("aten::mm", at + 210, at + 260, 0, 1); // autograd's thread
    }
    return b.take();
  };
  const Explanation result = explain(trace("a", 80), trace("b", 60), std::nullopt);
  EXPECT_TRUE(result.kernels.empty());
  ASSERT_EQ(result.operators.size(), 4u);
  EXPECT_NEAR(row(result.operators, "aten::linear").a_ns, 20 * kMicro, 1e-6);
  EXPECT_NEAR(row(result.operators, "aten::linear").b_ns, 40 * kMicro, 1e-6);
  EXPECT_NEAR(row(result.operators, "aten::copy_").a_ns, 8 * kMicro, 1e-6);
  for (const DiffRow& one : result.operators) {
    if (one.name != "aten::mm") continue;
    const bool forward = one.stage == Stage::Forward;
    EXPECT_EQ(one.stage, forward ? Stage::Forward : Stage::Backward);
    EXPECT_NEAR(one.a_ns, (forward ? 72 : 50) * kMicro, 1e-6);
    EXPECT_EQ(one.status, forward ? DiffStatus::Faster : DiffStatus::Same);
  }
}

// 200 equal kernels: without the correction about ten would be called faster or slower.
TEST(TraceDiff, ManyEqualRowsRaiseFewFalseFindings) {
  std::vector<std::string> names;
  for (int i = 0; i < 200; ++i) names.push_back("kernel_" + std::to_string(i));
  std::vector<Kernel> kernels;
  for (const std::string& name : names) kernels.push_back({name.c_str(), 300, 40});
  int findings = 0;
  for (std::uint64_t launch = 0; launch < 10; ++launch) {
    const Explanation result = explain(gpu_trace("a", kernels, 2 * launch + 1),
                                       gpu_trace("b", kernels, 2 * launch + 2),
                                       std::nullopt);
    for (const DiffRow& one : result.kernels)
      findings += one.status == DiffStatus::Faster || one.status == DiffStatus::Slower ? 1 : 0;
  }
  EXPECT_LE(findings, 4); // of 2000; uncorrected: about 100
}

// The worked example of Benjamini and Hochberg 1995, section 3.1: four of fifteen at 5 %.
TEST(BenjaminiHochberg, WorkedExample) {
  const std::vector<double> p{.0001,
                              .0004,
                              .0019,
                              .0095,
                              .0201,
                              .0278,
                              .0298,
                              .0344,
                              .0459,
                              .3240,
                              .4262,
                              .5719,
                              .6528,
                              .7590,
                              1.000};
  const std::vector<bool> rejected = benjamini_hochberg(p, 0.05);
  for (std::size_t i = 0; i < p.size(); ++i) EXPECT_EQ(rejected[i], i < 4) << i;
  EXPECT_TRUE(benjamini_hochberg({}, 0.05).empty());
  // A step up: the second makes the first pass.
  EXPECT_EQ(benjamini_hochberg({.04, .045}, 0.05), (std::vector<bool>{true, true}));
  EXPECT_EQ(benjamini_hochberg({.04, .06}, 0.05), (std::vector<bool>{false, false}));
}

TEST(KernelClass, ByName) {
  const std::pair<const char*, const char*> cases[] = {
      {"ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "nccl"},
      {"void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128>>(Flash_fwd_params)", "attention"},
      {"nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_TNT", "gemm"},
      {"cutlass_80_tensorop_bf16_s16816gemm", "gemm"},
      {"aten::addmm", "gemm"},
      {"void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>",
       "norm"},
      {"aten::native_layer_norm", "norm"},
      {"void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(int)>",
       "copy"},
      {"Memcpy HtoD", "copy"},
      {"void at::native::reduce_kernel<512, 1>(at::native::ReduceOp)", "reduction"},
      {"aten::_log_softmax", "reduction"},
      {"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>",
       "elementwise"},
      {"void at::native::(anonymous namespace)::multi_tensor_apply_kernel<x>(y)", "elementwise"},
      {"assay_spin", "other"},
      {"", "other"},
  };
  for (const auto& [name, expected] : cases) EXPECT_EQ(kernel_class(name), expected) << name;
}

TEST(KernelClass, ShortNames) {
  const std::pair<const char*, const char*> cases[] = {
      {"void at::native::vectorized_elementwise_kernel<4, at::native::add<float>>(int, float*)",
       "vectorized_elementwise_kernel"},
      {"void at::native::(anonymous namespace)::softmax_warp_forward<float, 10>(float*, int)",
       "softmax_warp_forward"},
      {"void ns<int>::kernel(int)", "kernel"},
      {"nvjet_hsh_128x256", "nvjet_hsh_128x256"},
      {"Memcpy HtoD", "Memcpy HtoD"},
      {"aten::mm", "aten::mm"},
      {"assay::spin(long)", "spin"},
      {"(broken", "(broken"},
      {"", ""},
  };
  for (const auto& [name, expected] : cases) EXPECT_EQ(short_kernel_name(name), expected) << name;
}

} // namespace attribution_diff_test
} // namespace assay
