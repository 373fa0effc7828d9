// What computes the attention of one tensor of queries, keys and values: the plain form in fp64,
// what is refused in family `gpt`, and a batch of more documents than cuDNN's plans take.
#include <ATen/CPUGeneratorImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "core/fallback.h"
#include "core/result.h"
#include "kernels/attention/cudnn_plans.h"
#include "model/gates/gates.h"
#include "model/layers/attention/mla_attention.h"
#include "tests/model/attention/attention_fixture.h"
#include "tests/model/gpt/gpt_fixture.h"
#include "tests/model/model_fixture.h"

namespace assay {
namespace joined_attention_test {

using testing::HasSubstr;
using testing_model::cut;
using testing_model::make_segments;
using testing_model::plain_attention;
using testing_model::small_gpt;

constexpr double kScale = 0.3;
using Cu = std::vector<std::int32_t>;

struct Inputs {
  at::Tensor qkv, weights; // [T, 3, 2, 12], [T, 2, 12]

  explicit Inputs(std::int64_t tokens) {
    const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(8);
    const auto normal = [&](at::IntArrayRef shape) {
      return at::empty(shape, at::kDouble).normal_(0, 1, generator);
    };
    qkv = normal({tokens, 3, 2, 12}).requires_grad_();
    weights = normal({tokens, 2, 12});
  }
};

// The result, and the gradient of q, k and v.
std::pair<at::Tensor, at::Tensor> results(const Inputs& in, const at::Tensor& out) {
  (out * in.weights).sum().backward();
  const at::Tensor gradient = in.qkv.grad().clone();
  in.qkv.mutable_grad().reset();
  return {out.detach(), gradient};
}

at::Tensor run(const Inputs& in, const Cu& cu, Attention path, MlaAttention choice) {
  return joined_attention(in.qkv, make_segments(cu, 2, 16), path, kScale, choice, in.qkv.size(0));
}

TEST(JoinedAttention, MathAndFlashAreTheSoftmaxInFp64) {
  const std::pair<Attention, Cu> cases[] = {{Attention::Varlen, {0, 1, 3, 20, 48}},
                                            {Attention::Varlen, {0, 512, 513, 1537, 1560}},
                                            {Attention::Packed, {0, 700, 1400}}};
  for (const auto& [path, cu] : cases) {
    const Inputs in(cu.back());
    const std::vector<at::Tensor> parts = in.qkv.unbind(1);
    const auto [out, gradient] =
        results(in, plain_attention(parts[0], parts[1], parts[2], cu, kScale));
    for (const MlaAttention choice : {MlaAttention::FlashPadded, MlaAttention::Math}) {
      const auto [own_out, own_gradient] = results(in, run(in, cu, path, choice));
      EXPECT_LE(relative_rms(own_out, out), 1e-10) << cu.size();
      EXPECT_LE(relative_rms(own_gradient, gradient), 1e-10) << cu.size();
    }
  }
}

TEST(JoinedAttention, MoreDocumentsFallBackAndSayIt) {
  const Cu cu = cut(1, 600, 257, 1);
  const Inputs in(cu.back());
  const auto noted = [] { return fallbacks()["fallback/mla_attention"]; };
  const std::int64_t before = noted();
  const at::Tensor flash = run(in, cu, Attention::Varlen, MlaAttention::FlashPadded);
  EXPECT_EQ(noted(), before);
  EXPECT_TRUE(at::equal(run(in, cu, Attention::Varlen, MlaAttention::Cudnn), flash));
  EXPECT_EQ(noted(), before + 1);
}

// Up to 256 documents nothing falls back: without a GPU that is an error, not another kernel.
TEST(JoinedAttention, CudnnAndEfficientNeverRunElsewhereOnACpu) {
  const Cu cu = cut(1, 600, 256, 1);
  const Inputs in(cu.back());
  const std::int64_t before = fallbacks()["fallback/mla_attention"];
  for (const MlaAttention choice : {MlaAttention::Cudnn, MlaAttention::Efficient})
    EXPECT_THROW((void)run(in, cu, Attention::Varlen, choice), Failure);
  EXPECT_EQ(fallbacks()["fallback/mla_attention"], before);
}

// Queries, keys and values lie in rows of all three; results and statistics do not.
TEST(JoinedAttention, ATableOfDocumentsHasTheirRows) {
  cudnn_plans::Shape shape;
  shape.documents = 64, shape.heads = 12, shape.width_qk = shape.width_v = 64;
  cudnn_plans::Table table = table_of(shape, nullptr);
  EXPECT_EQ(table.token[cudnn_plans::kWideQk], 768);
  shape.joined = true;
  table = table_of(shape, nullptr);
  EXPECT_EQ(table.token[cudnn_plans::kWideQk], 3 * 768);
  EXPECT_EQ(table.token[cudnn_plans::kWideV], 768);
  EXPECT_EQ(table.token[cudnn_plans::kStats], 12);
  const cudnn_plans::Shape alone;
  cudnn_plans::Shape joined;
  joined.joined = true;
  EXPECT_TRUE((alone < joined) != (joined < alone)) << "they would share a plan";
}

std::string refusal(MlaAttention choice, const std::function<void(TrainConfig&)>& change) {
  return testing_model::refusal(small_gpt(), choice, change);
}

TEST(JoinedAttention, GptRefusesByNameWhatAChoiceCannotRunWith) {
  const auto cpu = [](TrainConfig& c) { c.device = Device::Cpu; };
  const auto fp32 = [](TrainConfig& c) { c.precision = Precision::Fp32; };
  const auto dense = [](TrainConfig& c) { c.attention = Attention::MaskDense; };
  const auto wide = [](TrainConfig& c) { c.head_dim = 136; };
  const auto odd = [](TrainConfig& c) { c.head_dim = 12; };
  for (const MlaAttention choice : {MlaAttention::FlashPadded,
                                    MlaAttention::Cudnn,
                                    MlaAttention::Efficient,
                                    MlaAttention::Math})
    for (const Attention path : {Attention::Packed, Attention::Varlen})
      EXPECT_EQ(refusal(choice, [&](TrainConfig& c) { c.attention = path; }), "");
  EXPECT_THAT(refusal(MlaAttention::Cudnn, cpu), HasSubstr("cudnn needs device = cuda"));
  EXPECT_THAT(refusal(MlaAttention::Efficient, cpu), HasSubstr("efficient needs device = cuda"));
  EXPECT_EQ(refusal(MlaAttention::Math, cpu), "");
  EXPECT_THAT(refusal(MlaAttention::Cudnn, fp32), HasSubstr("cudnn needs precision"));
  EXPECT_EQ(refusal(MlaAttention::Efficient, fp32), "");
  for (const MlaAttention choice :
       {MlaAttention::Cudnn, MlaAttention::Efficient, MlaAttention::Math})
    EXPECT_THAT(refusal(choice, dense), HasSubstr("attention = mask_dense"));
  EXPECT_EQ(refusal(MlaAttention::FlashPadded, dense), "");
  EXPECT_THAT(refusal(MlaAttention::Cudnn, wide),
              HasSubstr("needs head_dim in multiples of 8 up to 128, not 136"));
  EXPECT_THAT(refusal(MlaAttention::Cudnn, odd), HasSubstr("not 12"));
  EXPECT_EQ(refusal(MlaAttention::Efficient, odd), "");
}

} // namespace joined_attention_test
} // namespace assay
