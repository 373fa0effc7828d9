// The kernels of the delta rule's inputs on a GPU: against the operators in fp64 on the same bf16
// inputs, the same bits from run to run, and no bit changed by another segment.
#include <gtest/gtest.h>

#include <ATen/cuda/CUDAContext.h>

#include "model/gates/gates.h"
#include "tests/model/delta_rule/delta_inputs_fixture.h"

namespace assay {
namespace delta_inputs_gpu_test {

using namespace testing_model;
using Tensors = std::vector<at::Tensor>;

struct Case {
  std::vector<std::int32_t> cu;
  std::int64_t heads, width;
};

// The sample rounded to what the kernels take, on a GPU in those types and on the CPU in fp64.
struct Rounded {
  DeltaInputSample gpu, exact;
};
Rounded rounded(const Case& c) {
  const DeltaInputSample sample = delta_input_sample(c.cu.back(), c.heads, c.width);
  Rounded r;
  for (std::size_t i = 0; i < sample.inputs.size(); ++i) {
    const at::ScalarType type = i == 0 ? at::kBFloat16 : at::kFloat;
    r.gpu.inputs.push_back(sample.inputs[i].to(at::kCUDA, type));
    r.exact.inputs.push_back(r.gpu.inputs.back().to(at::kCPU, at::kDouble));
  }
  for (std::size_t i = 0; i < sample.grads.size(); ++i) {
    const at::ScalarType type = i == 3 || i == 4 ? at::kFloat : at::kBFloat16;
    r.gpu.grads.push_back(sample.grads[i].to(at::kCUDA, type));
    r.exact.grads.push_back(r.gpu.grads.back().to(at::kCPU, at::kDouble));
  }
  return r;
}

class DeltaInputsGpu : public testing::TestWithParam<Case> {
protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  }
};

TEST_P(DeltaInputsGpu, EqualTheOperatorsInDouble) {
  const Rounded r = rounded(GetParam());
  const Tensors expected =
      delta_input_results(delta_inputs_ops, r.exact, delta_input_segments(GetParam().cu, at::kCPU));
  const Tensors actual = delta_input_results(
      delta_inputs_fused, r.gpu, delta_input_segments(GetParam().cu, at::kCUDA));
  ASSERT_EQ(actual[0].scalar_type(), at::kBFloat16) << "not from the kernels";
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const bool half = i < 3 || i == 6; // written in bf16: q, k, v, gradient of projected
    EXPECT_LE(relative_rms(actual[i].cpu(), expected[i]), half ? 4e-3 : 2e-5)
        << kDeltaInputNames[i];
  }
}

TEST_P(DeltaInputsGpu, RepeatThemselvesBitForBit) {
  const Rounded r = rounded(GetParam());
  const Segments segments = delta_input_segments(GetParam().cu, at::kCUDA);
  const Tensors first = delta_input_results(delta_inputs_fused, r.gpu, segments);
  const Tensors again = delta_input_results(delta_inputs_fused, r.gpu, segments);
  for (std::size_t i = 0; i < first.size(); ++i)
    EXPECT_TRUE(at::equal(first[i], again[i])) << kDeltaInputNames[i];
}

TEST_P(DeltaInputsGpu, AnotherSegmentChangesNoBit) {
  Rounded r = rounded(GetParam());
  const std::vector<std::int32_t>& cu = GetParam().cu;
  const Segments segments = delta_input_segments(cu, at::kCUDA);
  const Tensors before = delta_input_results(delta_inputs_fused, r.gpu, segments);
  const std::int64_t begin = cu[1], end = cu[2], tokens = cu.back();
  r.gpu.inputs[0].narrow(0, begin, end - begin).fill_(3);
  for (at::Tensor& grad : r.gpu.grads) grad.narrow(0, begin, end - begin).fill_(-2);
  const Tensors after = delta_input_results(delta_inputs_fused, r.gpu, segments);
  for (std::size_t i = 0; i < 7; ++i) {
    const auto same = [&](std::int64_t first, std::int64_t last) {
      return at::equal(before[i].narrow(0, first, last - first),
                       after[i].narrow(0, first, last - first));
    };
    EXPECT_TRUE(same(0, begin) && same(end, tokens)) << kDeltaInputNames[i];
    EXPECT_FALSE(same(begin, end)) << kDeltaInputNames[i];
  }
}

// Rows of 4 x 96 + 6 columns are no multiple of 8 bytes: the function pads a copy.
INSTANTIATE_TEST_SUITE_P(Cases,
                         DeltaInputsGpu,
                         testing::Values(Case{{0, 1, 3, 6, 10, 15, 17, 40, 41}, 3, 32},
                                         Case{{0, 100, 230, 231, 301}, 5, 64},
                                         Case{{0, 64, 128, 200}, 2, 128},
                                         Case{{0, 2048, 2100, 4096}, 12, 64},
                                         Case{{0, 7, 25000}, 2, 64}));

} // namespace delta_inputs_gpu_test
} // namespace assay
