// Products whose algorithm is timed, on a GPU.
#include "model/layers/linear/product.h"

#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <gtest/gtest.h>

#include "core/fallback.h"
#include "kernels/products/sum_product.h"
#include "model/gates/gates.h"
#include "model/layers/bf16_data.h"

namespace assay {
namespace product_gpu_test {

at::TensorOptions on_gpu(at::ScalarType type) {
  return at::TensorOptions().device(at::kCUDA).dtype(type);
}

at::Tensor normal(at::IntArrayRef shape) {
  return at::randn(shape, on_gpu(at::kBFloat16));
}

at::Tensor exact(const at::Tensor& a, const at::Tensor& b) {
  return at::mm(a.to(at::kDouble), b.to(at::kDouble));
}

std::int64_t fallback_count() {
  const auto all = fallbacks();
  const auto found = all.find("fallback/product_choice");
  return found == all.end() ? 0 : found->second;
}

class ProductGpu : public testing::Test {
protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
    before = fallback_count();
  }
  std::int64_t before = 0;
};

// Linears forward, the gradients of their inputs and of their weights, with widths that are no
// multiples of a tile.
TEST_F(ProductGpu, TimedEqualsFp64InEveryOrientation) {
  const at::Tensor x = normal({1000, 328}), w = normal({1544, 328}), dy = normal({1000, 1544});
  for (int i = 0; i < 2; ++i) { // chosen, then kept
    EXPECT_LT(relative_rms(product(x, w.t(), at::kBFloat16, true), exact(x, w.t())), 4e-3);
    EXPECT_LT(relative_rms(product(dy, w, at::kBFloat16, true), exact(dy, w)), 4e-3);
    EXPECT_LT(relative_rms(product(dy.t(), x, at::kFloat, true), exact(dy.t(), x)), 1e-5);
  }
  EXPECT_EQ(fallback_count(), before);
}

TEST_F(ProductGpu, TimedWritesPartsOfWiderRowsAndAddsInFp32) {
  const at::Tensor wide = normal({512, 400}), x = normal({512, 128});
  const at::Tensor logits = wide.narrow(1, 0, 392), head = normal({392, 128});
  product_out(logits, x, head.t(), false, true);
  EXPECT_LT(relative_rms(logits, exact(x, head.t())), 4e-3);
  at::Tensor sum = at::ones({392, 128}, on_gpu(at::kFloat));
  product_out(sum, logits.t(), x, true, true);
  EXPECT_LT(relative_rms(sum, exact(logits.t(), x) + 1), 1e-5);
  EXPECT_EQ(fallback_count(), before);
}

TEST_F(ProductGpu, TimedAddsABiasBeforeItRounds) {
  const at::Tensor x = normal({1000, 328}), w = normal({1544, 328}), bias = 100 * normal({1544});
  const at::Tensor truth = exact(x, w.t()) + bias;
  for (const bool timed : {false, true, true})
    EXPECT_LT(relative_rms(biased_product(bias, x, w.t(), timed), truth), 2e-3) << timed;
  EXPECT_EQ(fallback_count(), before);
}

TEST_F(ProductGpu, TimedRepeatsItsBits) {
  const at::Tensor x = normal({2048, 768}), w = normal({3096, 768});
  const at::Tensor first = product(x, w.t(), at::kBFloat16, true);
  EXPECT_TRUE(at::equal(first, product(x, w.t(), at::kBFloat16, true)));
}

TEST_F(ProductGpu, UnalignedOperandsFallBackAndSayso) {
  const at::Tensor x = normal({64, 61}), w = normal({64, 61}); // rows of 122 bytes
  EXPECT_LT(relative_rms(product(x, w.t(), at::kBFloat16, true), exact(x, w.t())), 4e-3);
  EXPECT_EQ(fallback_count(), before + 1);
}

TEST_F(ProductGpu, TimedRunsInsideACapture) {
  const at::Tensor x = normal({256, 64}), w = normal({128, 64});
  at::Tensor y;
  const c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool();
  const c10::cuda::CUDAStreamGuard guard(stream);
  at::cuda::CUDAGraph graph;
  graph.capture_begin();
  y = product(x, w.t(), at::kBFloat16, true); // no choice yet, and none is made
  graph.capture_end();
  graph.replay();
  c10::cuda::device_synchronize();
  EXPECT_LT(relative_rms(y, exact(x, w.t())), 4e-3);
}

// Rows, columns and inner steps that end within a tile, and more tiles than blocks.
TEST(SumProductGpu, EqualsDoublesAndRepeatsItself) {
  if (!at::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  const cudaDeviceProp& device = *at::cuda::getCurrentDeviceProperties();
  struct Case {
    std::int64_t rows, columns, inner, stride;
  };
  for (const auto& [rows, columns, inner, stride] : {Case{61, 32, 96, 64},
                                                     Case{200, 72, 1, 208},
                                                     Case{504, 384, 100, 512},
                                                     Case{50257, 768, 640, 50264}}) {
    const at::Tensor left = normal({inner, stride}).narrow(1, 0, rows),
                     right = normal({inner, columns}),
                     before = at::randn({rows, columns}, on_gpu(at::kFloat));
    const auto sum = [&](bool add) {
      at::Tensor out = before.clone();
      const sum_product::Problem problem{.left = bf16_data(left),
                                         .right = bf16_data(right),
                                         .out = out.data_ptr<float>(),
                                         .rows = rows,
                                         .columns = columns,
                                         .inner = inner,
                                         .left_stride = stride,
                                         .add = add};
      if (!sum_product::takes(problem, 10 * device.major + device.minor)) return at::Tensor();
      sum_product::launch(problem, device.multiProcessorCount, c10::cuda::getCurrentCUDAStream());
      return out;
    };
    if (!sum(true).defined()) GTEST_SKIP() << "not of compute capability 9.0";
    const at::Tensor product = exact(left.t(), right);
    for (const bool add : {false, true}) {
      const at::Tensor first = sum(add);
      EXPECT_LE(relative_rms(first, add ? product + before.to(at::kDouble) : product), 1e-5)
          << rows << ' ' << add;
      for (int i = 0; i < 200; ++i)
        ASSERT_TRUE(at::equal(sum(add), first)) << rows << ' ' << add << ' ' << i;
    }
  }
}

} // namespace product_gpu_test
} // namespace assay
