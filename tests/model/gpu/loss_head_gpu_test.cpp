// The loss in chunks on a GPU in bf16: against fp64 on the same inputs, the same bits from run to
// run, and within its memory.
#include <gtest/gtest.h>

#include <ATen/core/grad_mode.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <chrono>

#include "kernels/cuda_check.h"
#include "kernels/spin.h"
#include "model/gates/gates.h"
#include "model/layers/autocast.h"
#include "model/layers/loss_head.h"
#include "model/memory/peak_memory.h"

namespace assay {
namespace loss_head_gpu_test {

struct Case {
  std::int64_t tokens, width, vocab, mib;
  double scale; // of the head
};

struct Inputs {
  at::Tensor x, head, targets; // bf16, bf16, int64
};

Inputs inputs(const Case& c) {
  at::manual_seed(3);
  const auto options = at::TensorOptions().device(at::kCUDA);
  Inputs in{at::randn({c.tokens, c.width}, options).to(at::kBFloat16),
            (at::randn({c.vocab, c.width}, options) * c.scale).to(at::kBFloat16),
            at::randint(0, c.vocab, {c.tokens}, options.dtype(at::kLong))};
  in.targets[0] = c.vocab - 1;
  in.targets[c.tokens / 2] = -100;
  return in;
}

std::vector<at::Tensor>
results(const at::Tensor& loss, const at::Tensor& x, const at::Tensor& head) {
  loss.backward();
  return {loss.detach(), x.grad(), head.grad()};
}

std::vector<at::Tensor> chunked(const Inputs& in, std::int64_t mib) {
  const at::Tensor x = in.x.detach().clone().requires_grad_(),
                   head = in.head.detach().clone().requires_grad_();
  return results(chunked_loss(x, head, in.targets, mib), x, head);
}

class LossHeadGpu : public testing::TestWithParam<Case> {
protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  }
};

TEST_P(LossHeadGpu, EqualsTheLogitsInDouble) {
  const Inputs in = inputs(GetParam());
  const at::Tensor x = in.x.to(at::kDouble).requires_grad_(),
                   head = in.head.to(at::kDouble).requires_grad_();
  const auto expected = results(logits_loss(at::linear(x, head), in.targets), x, head);
  const auto actual = chunked(in, GetParam().mib);
  const double loss = expected[0].item<double>(), seen = actual[0].item<double>();
  EXPECT_LE(std::abs(seen - loss), 1e-3);
  EXPECT_LE(relative_rms(actual[1], expected[1]), 5e-3);
  EXPECT_LE(relative_rms(actual[2], expected[2]), 5e-3);
  EXPECT_FALSE(actual[1][GetParam().tokens / 2].any().item<bool>()) << "ignored";
  std::printf("    loss off by %.1e, x %.1e, head %.1e\n",
              std::abs(seen - loss),
              relative_rms(actual[1], expected[1]),
              relative_rms(actual[2], expected[2]));
  const at::NoGradGuard no_grad;
  const double alone = chunked_loss(in.x, in.head, in.targets, GetParam().mib).item<double>();
  EXPECT_LE(std::abs(alone - seen), 1e-5);
}

TEST_P(LossHeadGpu, RepeatsItselfBitForBit) {
  const Inputs in = inputs(GetParam());
  const auto first = chunked(in, GetParam().mib), again = chunked(in, GetParam().mib);
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(at::equal(first[i], again[i])) << i;
}

// A vocabulary of the presets, several chunks, one that needs padding, rows too long for shared
// memory.
INSTANTIATE_TEST_SUITE_P(Cases,
                         LossHeadGpu,
                         testing::Values(Case{96, 32, 61, 256, .2},
                                         Case{1500, 64, 8192, 1, .1},
                                         Case{700, 768, 50304, 64, .02},
                                         Case{300, 64, 50257, 8, .1},
                                         Case{200, 64, 130001, 8, .1}));

// Beside its results and the 16-bit copy of the head: 256 MiB, and 64 MiB of 70.
TEST(LossHeadMemory, KeepsItsBudget) {
  if (!at::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  for (const auto& [mib, limit] : {std::pair(256, 262), std::pair(64, 70)}) {
    const Case c{32768, 768, 50304, mib, .02};
    Inputs in = inputs(c);
    const at::Tensor x = in.x.requires_grad_(),
                     head = in.head.to(at::kFloat).detach().requires_grad_();
    in.head.reset();
    std::vector<std::int64_t> extra;
    for (int i = 0; i < 2; ++i) { // the first pays for the products' workspaces
      x.mutable_grad().reset(), head.mutable_grad().reset();
      PeakMemory memory(Device::Cuda);
      const at::Tensor loss = [&] {
        const AutocastGuard autocast(at::kCUDA, at::kBFloat16);
        return chunked_loss(x, head, in.targets, mib);
      }();
      loss.backward();
      const auto results = x.nbytes() + head.nbytes() + head.nbytes() / 2;
      extra.push_back(memory.peak_bytes() - memory.start_bytes() -
                      static_cast<std::int64_t>(results));
    }
    std::printf("    %d MiB: %.1f MiB more\n", mib, static_cast<double>(extra[1]) / (1 << 20));
    EXPECT_LE(extra[1], std::int64_t{limit} << 20);
  }
}

TEST(LossHeadMemory, NothingWaitsForTheDevice) {
  if (!at::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  const Inputs in = inputs({1500, 64, 8192, 1, .1});
  (void)chunked(in, 1);
  c10::cuda::device_synchronize();
  launch_spin(1'000'000'000, c10::cuda::getCurrentCUDAStream().stream());
  ASSAY_CUDA(cudaGetLastError());
  const auto start = std::chrono::steady_clock::now();
  (void)chunked(in, 1);
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 0.5);
  c10::cuda::device_synchronize();
}

} // namespace loss_head_gpu_test
} // namespace assay
