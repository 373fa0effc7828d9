// The kernels of RWKV-6 and SSD on a GPU: against the recurrences in fp64 on the same bf16 inputs,
// the same bits from run to run, and no bit changed by another segment.
#include <gtest/gtest.h>

#include <ATen/cuda/CUDAContext.h>

#include "model/gates/gates.h"
#include "model/layers/scan/rwkv6.h"
#include "model/layers/scan/ssd.h"
#include "model/layout/segments.h"
#include "tests/model/model_fixture.h"

namespace assay {
namespace scan_gpu_test {

using Results = std::vector<at::Tensor>;
using Scan = std::function<at::Tensor(const Results& inputs, const Segments& segments)>;

struct Case {
  std::vector<std::int32_t> cu;
  std::int64_t heads;
  double decay;
  std::int64_t values = 64, states = 64, groups = 1; // of SSD
};

std::vector<std::int32_t> rows(std::int32_t count, std::int32_t length) {
  std::vector<std::int32_t> cu;
  for (std::int32_t row = 0; row <= count; ++row) cu.push_back(row * length);
  return cu;
}

Segments segments_for(const Case& c, at::Device device) {
  TrainConfig config;
  config.heads = c.heads;
  config.chunk_size = 64;
  config.conv_kernel = 4;
  Segments segments = segments_of(c.cu, device);
  segments.chunks = std::make_shared<const ChunkLayout>(make_chunk_layout(segments, config));
  return segments;
}

struct Inputs {
  Results leaves;
  at::Tensor d_out;
};

at::Tensor rounded(const at::Tensor& x) {
  return x.to(at::kBFloat16).to(at::kCUDA);
}

Inputs rwkv_inputs(const Case& c) {
  at::manual_seed(3);
  const auto normal = [&] { return at::randn({c.cu.back(), c.heads, 64}); };
  const at::Tensor w = at::softplus(normal()) * -c.decay;
  return {{rounded(normal()),
           rounded(normal()),
           rounded(normal()),
           rounded(w),
           at::rand({c.heads, 64}).to(at::kCUDA)},
          rounded(normal())};
}

Inputs ssd_inputs(const Case& c) {
  at::manual_seed(3);
  const std::int64_t tokens = c.cu.back();
  const auto values = [&] { return rounded(at::randn({tokens, c.heads, c.values})); };
  const auto keys = [&] { return rounded(at::randn({tokens, c.groups, c.states})); };
  return {{values(),
           (at::softplus(at::randn({tokens, c.heads})) * -c.decay).to(at::kCUDA),
           keys(),
           keys()},
          values()};
}

at::Tensor rwkv_loop(const Results& x, const Segments& s) {
  return rwkv6_loop(x[0], x[1], x[2], x[3], x[4], s);
}
at::Tensor rwkv_chunked(const Results& x, const Segments& s) {
  return rwkv6_chunked(x[0], x[1], x[2], x[3], x[4], s);
}
at::Tensor rwkv_fused(const Results& x, const Segments& s) {
  return rwkv6_fused(x[0], x[1], x[2], x[3], x[4], s);
}
at::Tensor ssd_by_chunks(const Results& x, const Segments& s) {
  return ssd_chunked(x[0], x[1], x[2], x[3], s);
}
at::Tensor ssd_by_kernels(const Results& x, const Segments& s) {
  return ssd_fused(x[0], x[1], x[2], x[3], s);
}

// Output, then the gradients of all inputs.
Results run(const Scan& scan, const Inputs& in, const Segments& segments) {
  Results leaves;
  for (const at::Tensor& x : in.leaves) leaves.push_back(x.detach().clone().requires_grad_());
  const at::Tensor out = scan(leaves, segments);
  out.backward(in.d_out.to(out.scalar_type()));
  Results all{out.detach()};
  for (const at::Tensor& leaf : leaves) all.push_back(leaf.grad());
  return all;
}

// The chunk form in fp64 equals the recurrence within 1e-10 (tests/model/rwmba).
void expect_near_exact(const Case& c,
                       const Inputs& in,
                       const Scan& exact,
                       const Scan& kernels,
                       const std::vector<double>& limits) {
  Inputs wide{{}, in.d_out.to(at::kDouble)};
  for (const at::Tensor& x : in.leaves) wide.leaves.push_back(x.to(at::kDouble));
  const Segments segments = segments_for(c, at::kCUDA);
  const Results expected = run(exact, wide, segments), actual = run(kernels, in, segments);
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_LE(relative_rms(actual[i], expected[i]), limits[i]) << "result " << i;
}

void expect_repeated(const Case& c, const Inputs& in, const Scan& kernels, int times) {
  const Segments segments = segments_for(c, at::kCUDA);
  const Results first = run(kernels, in, segments);
  for (int i = 0; i < times; ++i) {
    const Results again = run(kernels, in, segments);
    for (std::size_t j = 0; j < first.size(); ++j)
      EXPECT_TRUE(at::equal(first[j], again[j])) << "result " << j << ", run " << i;
  }
}

class ScanGpu : public testing::TestWithParam<Case> {
protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  }
};

TEST_P(ScanGpu, Rwkv6EqualsFp64AndRepeatsItself) {
  const Inputs in = rwkv_inputs(GetParam());
  expect_near_exact(GetParam(), in, rwkv_chunked, rwkv_fused, {5e-3, 8e-3, 8e-3, 8e-3, 2e-2, 2e-2});
  expect_repeated(GetParam(), in, rwkv_fused, 3);
}

TEST_P(ScanGpu, SsdEqualsFp64AndRepeatsItself) {
  const Inputs in = ssd_inputs(GetParam());
  expect_near_exact(GetParam(), in, ssd_by_chunks, ssd_by_kernels, {5e-3, 8e-3, 2e-2, 8e-3, 8e-3});
  expect_repeated(GetParam(), in, ssd_by_kernels, 3);
}

INSTANTIATE_TEST_SUITE_P(Cases,
                         ScanGpu,
                         testing::Values(Case{{0, 1, 3, 18, 81, 145, 210, 340, 597}, 3, 0.3},
                                         Case{{0, 64}, 1, 0.001},
                                         Case{{0, 130, 137, 437}, 2, 10.0},
                                         Case{{0, 130, 137, 437}, 2, 0.05, 128, 128},
                                         Case{{0, 70, 200}, 4, 0.3, 128, 64, 2},
                                         Case{{0, 3500}, 1, 0.01}, // passes over chunks
                                         Case{{0, 3500}, 2, 0.01, 128, 128},
                                         Case{{0, 2048, 4096}, 12, 0.05, 128}));

TEST(ScanGpuRecurrence, TheKernelsEqualTheLoop) {
  if (!at::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  const Case c{{0, 5, 75}, 2, 0.3};
  expect_near_exact(c, rwkv_inputs(c), rwkv_loop, rwkv_fused, {5e-3, 8e-3, 8e-3, 8e-3, 2e-2, 2e-2});
}

// Shapes that fill the board, many times: a race shows itself seldom.
TEST(ScanGpuShapes, RepeatThemselvesBitForBit) {
  if (!at::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  for (const Case& c : {Case{rows(6, 2048), 12, 0.05},
                        Case{rows(16, 2048), 12, 0.05, 128},
                        Case{rows(1, 32768), 12, 0.05},
                        Case{rows(64, 64), 4, 0.05}}) {
    expect_repeated(c, rwkv_inputs(c), rwkv_fused, 20);
    expect_repeated(c, ssd_inputs(c), ssd_by_kernels, 20);
  }
}

TEST(ScanGpuIsolation, AnotherSegmentChangesNoBit) {
  if (!at::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  const Case c{{0, 70, 200}, 2, 0.3};
  const Segments segments = segments_for(c, at::kCUDA);
  const auto isolated = [&](const Scan& kernels, Inputs in, std::size_t per_token) {
    const Results before = run(kernels, in, segments);
    for (std::size_t i = 0; i < per_token; ++i) {
      in.leaves[i] = in.leaves[i].clone();
      in.leaves[i].narrow(0, 70, 130).fill_(-0.7);
    }
    const Results after = run(kernels, in, segments);
    for (std::size_t i = 0; i <= per_token; ++i)
      EXPECT_TRUE(at::equal(before[i].narrow(0, 0, 70), after[i].narrow(0, 0, 70))) << i;
  };
  isolated(rwkv_fused, rwkv_inputs(c), 4);
  isolated(ssd_by_kernels, ssd_inputs(c), 4);
}

} // namespace scan_gpu_test
} // namespace assay
