// What computes the attention of latent attention: the plain form in fp64, what is refused, and a
// batch of more documents than cuDNN's plans take.
#include <ATen/CPUGeneratorImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/fallback.h"
#include "core/result.h"
#include "model/gates/code_path.h"
#include "model/gates/gates.h"
#include "model/layers/attention/cudnn_attention.h"
#include "model/layers/attention/mla_attention.h"
#include "tests/model/attention/attention_fixture.h"
#include "tests/model/model_fixture.h"

namespace assay {
namespace mla_attention_test {

using testing::HasSubstr;
using testing_model::make_segments;
using testing_model::plain_attention;
using testing_model::small_config;

constexpr double kScale = 0.3;

struct Inputs {
  at::Tensor q, k, v, weights; // [T, 2, 12], [T, 2, 12], [T, 2, 8]
};

Inputs inputs(std::int64_t tokens) {
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(8);
  const auto normal = [&](std::int64_t width) {
    return at::empty({tokens, 2, width}, at::kDouble).normal_(0, 1, generator);
  };
  return {normal(12).requires_grad_(),
          normal(12).requires_grad_(),
          normal(8).requires_grad_(),
          normal(8)};
}

// The result, then the gradients of q, k and v.
std::vector<at::Tensor> results(const Inputs& in, const at::Tensor& out) {
  (out * in.weights).sum().backward();
  std::vector<at::Tensor> all{out.detach()};
  for (const at::Tensor* x : {&in.q, &in.k, &in.v}) {
    all.push_back(x->grad());
    x->mutable_grad().reset();
  }
  return all;
}

at::Tensor
run(const Inputs& in, const std::vector<std::int32_t>& cu, Attention path, MlaAttention choice) {
  return mla_attention(
      in.q, in.k, in.v, make_segments(cu, 2, 16), path, kScale, choice, in.q.size(0));
}

std::vector<std::int32_t> single_tokens(std::int32_t documents) {
  std::vector<std::int32_t> cu;
  for (std::int32_t i = 0; i <= documents; ++i) cu.push_back(i);
  return cu;
}

struct Borders {
  Attention path;
  std::vector<std::int32_t> cu;
};

// Segments of one token, shorter than a chunk of queries, of just one, and of several.
TEST(MlaAttention, MathAndPaddedAreTheSoftmaxInFp64) {
  for (const Borders& borders : {Borders{Attention::Varlen, {0, 1, 3, 20, 48}},
                                 Borders{Attention::Varlen, {0, 512, 513, 1537, 1560}},
                                 Borders{Attention::Packed, {0, 700, 1400}}}) {
    const Inputs in = inputs(borders.cu.back());
    const auto expected = results(in, plain_attention(in.q, in.k, in.v, borders.cu, kScale));
    for (const MlaAttention choice : {MlaAttention::FlashPadded, MlaAttention::Math}) {
      const auto actual = results(in, run(in, borders.cu, borders.path, choice));
      for (std::size_t i = 0; i < expected.size(); ++i)
        EXPECT_LE(relative_rms(actual[i], expected[i]), 1e-10)
            << i << " of " << borders.cu.size() << " borders";
    }
  }
}

TEST(MlaAttention, ADocumentChangesNoOther) {
  const std::vector<std::int32_t> cu{0, 30, 47, 90};
  Inputs in = inputs(cu.back());
  const auto of_others = [&](const std::vector<at::Tensor>& all) {
    std::vector<at::Tensor> parts;
    for (const at::Tensor& x : all)
      parts.push_back(at::cat({x.narrow(0, 0, 30), x.narrow(0, 47, 43)}));
    return parts;
  };
  const auto before = results(in, run(in, cu, Attention::Varlen, MlaAttention::Math));
  for (at::Tensor* x : {&in.q, &in.k, &in.v}) {
    const at::NoGradGuard no_grad;
    x->narrow(0, 30, 17).fill_(7);
  }
  const auto after = results(in, run(in, cu, Attention::Varlen, MlaAttention::Math));
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_TRUE(at::equal(of_others(before)[i], of_others(after)[i])) << i;
    EXPECT_FALSE(at::equal(before[i], after[i])) << i;
  }
}

TEST(MlaAttention, PlansHaveRoomForUpTo256Documents) {
  const std::pair<std::int64_t, std::int64_t> rooms[] = {
      {1, 64}, {64, 64}, {65, 96}, {96, 96}, {97, 128}, {129, 192}, {193, 256}, {256, 256}};
  for (const auto& [documents, room] : rooms) EXPECT_EQ(cudnn_room(documents), room) << documents;
  EXPECT_FALSE(cudnn_room(257));
}

class Recorder : public SpanSink {
public:
  void begin(const char* name) override { ++seen[name]; }
  void end(const char*) override {}
  void count(const char* name, std::int64_t amount) override { seen[name] += amount; }
  std::map<std::string, std::int64_t> seen;
};

// It shows the span of what ran, and is counted with and without a listener.
TEST(MlaAttention, MoreDocumentsFallBackAndSayIt) {
  const std::vector<std::int32_t> cu = single_tokens(257);
  const Inputs in = inputs(cu.back());
  const auto noted = [] { return fallbacks()["fallback/mla_attention"]; };
  const std::int64_t before = noted();
  const at::Tensor padded = run(in, cu, Attention::Varlen, MlaAttention::FlashPadded);
  EXPECT_EQ(noted(), before);
  EXPECT_TRUE(at::equal(run(in, cu, Attention::Varlen, MlaAttention::Cudnn), padded));
  EXPECT_EQ(noted(), before + 1);
  Recorder recorder;
  {
    const SpanSinkGuard listening(recorder);
    (void)run(in, cu, Attention::Varlen, MlaAttention::Cudnn);
  }
  EXPECT_EQ(noted(), before + 2);
  EXPECT_EQ(recorder.seen["fallback/mla_attention"], 1);
  EXPECT_EQ(recorder.seen["mla_attention/flash_padded"], 1);
  EXPECT_EQ(recorder.seen.count("mla_attention/cudnn"), 0U);
}

// Up to 256 documents nothing falls back: without a GPU that is an error, not another kernel.
TEST(MlaAttention, CudnnAndEfficientNeverRunElsewhereOnACpu) {
  const std::vector<std::int32_t> cu = single_tokens(256);
  const Inputs in = inputs(cu.back());
  for (const MlaAttention choice : {MlaAttention::Cudnn, MlaAttention::Efficient})
    EXPECT_THROW((void)run(in, cu, Attention::Varlen, choice), Failure);
}

std::string refusal(MlaAttention choice, const std::function<void(TrainConfig&)>& change) {
  return testing_model::refusal(small_config(), choice, change);
}

TEST(MlaAttention, RefusesByNameWhatAChoiceCannotRunWith) {
  const auto nothing = [](TrainConfig&) {};
  const auto cpu = [](TrainConfig& c) { c.device = Device::Cpu; };
  const auto fp32 = [](TrainConfig& c) { c.precision = Precision::Fp32; };
  const auto dense = [](TrainConfig& c) { c.attention = Attention::MaskDense; };
  for (const MlaAttention choice : {MlaAttention::FlashPadded,
                                    MlaAttention::Cudnn,
                                    MlaAttention::Efficient,
                                    MlaAttention::Math})
    EXPECT_EQ(refusal(choice, nothing), "");
  EXPECT_THAT(refusal(MlaAttention::Cudnn, cpu), HasSubstr("cudnn needs device = cuda"));
  EXPECT_THAT(refusal(MlaAttention::Efficient, cpu), HasSubstr("efficient needs device = cuda"));
  EXPECT_EQ(refusal(MlaAttention::Math, cpu), "");
  EXPECT_THAT(refusal(MlaAttention::Cudnn, fp32), HasSubstr("cudnn needs precision"));
  EXPECT_EQ(refusal(MlaAttention::Efficient, fp32), "");
  EXPECT_EQ(refusal(MlaAttention::Math, fp32), "");
  for (const Precision precision : {Precision::Fp16, Precision::Fp8})
    EXPECT_EQ(refusal(MlaAttention::Cudnn, [&](TrainConfig& c) { c.precision = precision; }), "");
  for (const MlaAttention choice :
       {MlaAttention::Cudnn, MlaAttention::Efficient, MlaAttention::Math})
    EXPECT_THAT(refusal(choice, dense), HasSubstr("attention = mask_dense"));
  EXPECT_EQ(refusal(MlaAttention::FlashPadded, dense), "");
  EXPECT_THAT(refusal(MlaAttention::Cudnn, [](TrainConfig& c) { c.rope_dim = 6; }),
              HasSubstr("multiples of 8"));
  EXPECT_THAT(refusal(MlaAttention::Cudnn, [](TrainConfig& c) { c.head_dim = 128; }),
              HasSubstr("up to 128, not 128 and 136"));
}

} // namespace mla_attention_test
} // namespace assay
