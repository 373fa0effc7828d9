// The kernels before latent attention on a GPU: against the operators in fp64 on the same bf16
// inputs, the same bits from run to run, no bit changed by another segment, and nothing overwritten
// that somebody else needs.
#include <gtest/gtest.h>

#include <ATen/cuda/CUDAContext.h>

#include "model/gates/code_path.h"
#include "model/gates/gates.h"
#include "tests/model/attention/latent_inputs_fixture.h"

namespace assay {
namespace latent_inputs_gpu_test {

using namespace testing_model;
using Tensors = std::vector<at::Tensor>;

struct Case {
  std::vector<std::int32_t> cu;
  LatentSizes sizes;
};

// The sample rounded to what the kernels take, on a GPU in those types and on the CPU in fp64.
struct Rounded {
  LatentSample gpu, exact;
};
Rounded rounded(const Case& c) {
  const LatentSample sample = latent_sample(c.cu.back(), c.sizes);
  Rounded r;
  r.gpu.heads = r.exact.heads = c.sizes.heads;
  for (std::size_t i = 0; i < sample.inputs.size(); ++i) {
    const at::ScalarType type = i == 2 ? at::kFloat : at::kBFloat16;
    r.gpu.inputs.push_back(sample.inputs[i].to(at::kCUDA, type));
    r.exact.inputs.push_back(r.gpu.inputs.back().to(at::kCPU, at::kDouble));
  }
  for (const at::Tensor& grad : sample.grads) {
    r.gpu.grads.push_back(grad.to(at::kCUDA, at::kBFloat16));
    r.exact.grads.push_back(r.gpu.grads.back().to(at::kCPU, at::kDouble));
  }
  return r;
}

class LatentInputsGpu : public testing::TestWithParam<Case> {
protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  }
  static Rotary rotary(at::Device device) {
    return latent_rotary(GetParam().cu, GetParam().sizes, device);
  }
};

TEST_P(LatentInputsGpu, EqualTheOperatorsInDouble) {
  const Rounded r = rounded(GetParam());
  const Tensors expected =
      latent_results(latent_operators(rotary_form(MlaInputs::Ops)), r.exact, rotary(at::kCPU));
  const Tensors actual = latent_results(latent_fused, r.gpu, rotary(at::kCUDA));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const bool half = i != 6; // the weight's gradient is fp32
    ASSERT_EQ(actual[i].scalar_type(), half ? at::kBFloat16 : at::kFloat) << kLatentNames[i];
    EXPECT_LE(relative_rms(actual[i].cpu(), expected[i]), half ? 4e-3 : 2e-5) << kLatentNames[i];
  }
}

TEST_P(LatentInputsGpu, EveryRotationEqualsTheOperatorsInDouble) {
  const Rounded r = rounded(GetParam());
  const Tensors expected =
      latent_results(latent_operators(rotary_form(MlaInputs::Ops)), r.exact, rotary(at::kCPU));
  for (const MlaInputs form : {MlaInputs::RotaryTranspose, MlaInputs::RotaryComplex}) {
    const Tensors actual =
        latent_results(latent_operators(rotary_form(form)), r.gpu, rotary(at::kCUDA));
    for (const std::size_t i : {1, 2, 4, 5}) // q, k and the gradients that pass a rotation
      EXPECT_LE(relative_rms(actual[i].cpu(), expected[i]), 4e-3)
          << kLatentNames[i] << ", form " << static_cast<int>(form);
  }
}

TEST_P(LatentInputsGpu, RepeatThemselvesBitForBit) {
  const Rounded r = rounded(GetParam());
  const Tensors first = latent_results(latent_fused, r.gpu, rotary(at::kCUDA)),
                again = latent_results(latent_fused, r.gpu, rotary(at::kCUDA));
  for (std::size_t i = 0; i < first.size(); ++i)
    EXPECT_TRUE(at::equal(first[i], again[i])) << kLatentNames[i];
}

TEST_P(LatentInputsGpu, AnotherSegmentChangesNoBit) {
  Rounded r = rounded(GetParam());
  const std::vector<std::int32_t>& cu = GetParam().cu;
  const Tensors before = latent_results(latent_fused, r.gpu, rotary(at::kCUDA));
  const std::int64_t begin = cu[1], end = cu[2], tokens = cu.back();
  for (const std::size_t i : {0, 1, 3}) r.gpu.inputs[i].narrow(0, begin, end - begin).fill_(3);
  for (at::Tensor& grad : r.gpu.grads) grad.narrow(0, begin, end - begin).fill_(-2);
  const Tensors after = latent_results(latent_fused, r.gpu, rotary(at::kCUDA));
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i].dim() == 1) continue; // the weight's gradient is a sum over tokens
    const auto same = [&](std::int64_t first, std::int64_t last) {
      return at::equal(before[i].narrow(0, first, last - first),
                       after[i].narrow(0, first, last - first));
    };
    EXPECT_TRUE(same(0, begin) && same(end, tokens)) << kLatentNames[i];
    EXPECT_FALSE(same(begin, end)) << kLatentNames[i];
  }
}

// The shape of preset base; of tiny; the smallest; wide ones; a latent that fills no warp's row;
// more blocks than the norm's backward kernel has.
INSTANTIATE_TEST_SUITE_P(Cases,
                         LatentInputsGpu,
                         testing::Values(Case{{0, 2048, 2100, 4096}, {12, 64, 32, 256}},
                                         Case{{0, 1, 3, 6, 10, 15, 17, 40, 41}, {5, 32, 16, 64}},
                                         Case{{0, 100, 230, 231, 301}, {2, 16, 8, 16}},
                                         Case{{0, 64, 128, 200}, {3, 128, 64, 512}},
                                         Case{{0, 64, 128, 200}, {1, 8, 256, 1024}},
                                         Case{{0, 7, 25000}, {2, 64, 32, 200}}));

class LatentOwnershipGpu : public testing::Test {
protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  }
  const std::vector<std::int32_t> cu_{0, 100, 230, 231, 301};
  Rounded sample_ = rounded({cu_, {5, 64, 32, 256}});
  Rotary rotary_ = latent_rotary(cu_, {5, 64, 32, 256}, at::kCUDA);
};

// A gradient that the caller keeps is copied before it is rotated.
TEST_F(LatentOwnershipGpu, AGradientOfOthersStaysAsItIs) {
  Tensors before;
  for (const at::Tensor& grad : sample_.gpu.grads) before.push_back(grad.clone());
  (void)latent_results(latent_fused, sample_.gpu, rotary_);
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_TRUE(at::equal(before[i], sample_.gpu.grads[i])) << kLatentNames[i];
}

TEST_F(LatentOwnershipGpu, QIsRotatedInPlaceAndNobodySavesItsOldValue) {
  const at::Tensor weight = at::ones_like(sample_.gpu.inputs[0]).requires_grad_();
  const at::Tensor q = sample_.gpu.inputs[0] * weight, squared = q * q; // saves q
  const NormedLatent normed = norm_latent(sample_.gpu.inputs[1], sample_.gpu.inputs[2]);
  const LatentHeads heads = latent_heads(q, sample_.gpu.inputs[3], normed.key, rotary_, 5);
  EXPECT_EQ(heads.q.const_data_ptr(), q.const_data_ptr());
  EXPECT_THROW(squared.sum().backward(), c10::Error);
}

// In the model attention's gradient of q belongs to nobody else.
TEST_F(LatentOwnershipGpu, AStepCopiesNoGradient) {
  const Optimization& row = *optimizations().find("mla_inputs");
  TrainConfig config = small_config();
  config.device = Device::Cuda;
  config.precision = Precision::Bf16;
  config.mla_inputs = MlaInputs::Fused;
  const CodePath seen =
      record_code_path(row, config, {ragged_batch(config), ragged_batch(config, 4)});
  ASSERT_TRUE(seen.counters.contains("mla_inputs/gradient_copies")) << "not from the kernels";
  EXPECT_EQ(seen.counters.at("mla_inputs/gradient_copies"), 0);
}

// Heads of 32 + 16 and of 64 + 32, latents of 64 and 128, every level.
TEST_F(LatentOwnershipGpu, ModelsOfTwoPresetsPassTheGatesInBf16) {
  const Optimization& row = *optimizations().find("mla_inputs");
  for (const char* preset : {"tiny", "small"}) {
    TrainConfig config;
    config.preset = preset;
    config.pattern = "MM";
    config.device = Device::Cuda;
    config.precision = Precision::Bf16;
    config.batch_rows = 2;
    config = value_or_throw(resolve(config));
    const auto length = static_cast<std::int32_t>(config.seq_len);
    const Batch batch = random_batch(config, 3, {1, 17, length / 2, length + 5});
    for (const Level& level : row.levels) {
      TrainConfig reference = config, other = config;
      level.apply(other);
      for (const GateResult& gate : run_gates(row, reference, other, {batch}))
        EXPECT_TRUE(gate.passed) << preset << ' ' << level.name << ' ' << gate.name << ": "
                                 << gate.value << " > " << gate.bound << " (" << gate.detail << ")";
    }
  }
}

} // namespace latent_inputs_gpu_test
} // namespace assay
