// What computes the attention of one tensor of queries, keys and values on a GPU, as family `gpt`
// has it: each choice against fp32 by document, and its one gradient.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <limits>

#include "core/fallback.h"
#include "model/gates/gates.h"
#include "model/layers/attention/mla_attention.h"
#include "tests/model/gpt/gpt_fixture.h"
#include "tests/model/gpu/attention_gpu.h"
#include "tests/model/model_fixture.h"

namespace assay {
namespace joined_attention_gpu_test {

using testing_model::AttentionGpu, testing_model::Cu, testing_model::Tensors;
using testing_model::cut, testing_model::plain_attention, testing_model::segments;
using testing_model::expect_a_graph_takes_other_documents, testing_model::expect_near;

constexpr std::int32_t kRow = 1024;
constexpr double kBound = 5e-3, kHalfRounding = 1e-3;
constexpr MlaAttention kChoices[] = {
    MlaAttention::FlashPadded, MlaAttention::Cudnn, MlaAttention::Efficient, MlaAttention::Math};

using JoinedAttentionGpu = AttentionGpu;

// A leaf in `type`, and what the result is multiplied with before its sum.
struct Inputs {
  at::Tensor qkv, weights; // [T, 3, H, D], [T, H, D]

  Inputs(std::int64_t tokens, std::int64_t heads, std::int64_t width, at::ScalarType type) {
    const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(3);
    const auto normal = [&](at::IntArrayRef shape) {
      return at::empty(shape).normal_(0, 1, generator).to(at::kCUDA, type);
    };
    qkv = normal({tokens, 3, heads, width}).requires_grad_();
    weights = normal({tokens, heads, width});
  }
  explicit Inputs(std::int64_t tokens) : Inputs(tokens, 12, 64, at::kBFloat16) {}
  double scale() const { return 1 / std::sqrt(static_cast<double>(qkv.size(3))); }
};

// The result, then the gradients of q, k and v.
Tensors results(const Inputs& in, const at::Tensor& out) {
  const at::Tensor gradient =
      torch::autograd::grad({out}, {in.qkv}, {in.weights.to(out.scalar_type())}).front();
  EXPECT_TRUE(gradient.is_contiguous());
  Tensors all{out.detach()};
  for (const at::Tensor& part : gradient.unbind(1)) all.push_back(part);
  return all;
}

Tensors expected(const Inputs& in, const Cu& cu) {
  Inputs exact = in;
  exact.qkv = in.qkv.detach().to(at::kFloat).requires_grad_();
  const Tensors parts = exact.qkv.unbind(1);
  return results(exact, plain_attention(parts[0], parts[1], parts[2], cu, in.scale()));
}

// Memory that is not written shows as NaN.
Tensors run(const Inputs& in, const Segments& segments, Attention path, MlaAttention choice) {
  (void)at::full_like(in.qkv.detach(), NAN);
  return results(in, joined_attention(in.qkv, segments, path, in.scale(), choice, kRow));
}

// Rows; then every room of the plans, documents of one token, one document, batches of few tokens.
TEST_F(JoinedAttentionGpu, EveryChoiceIsTheSoftmax) {
  struct Case {
    Attention path;
    Cu cu;
  };
  const Case cases[] = {{Attention::Packed, cut(1, 64, 1, 1)},
                        {Attention::Packed, cut(3, 200, 3, 1)},
                        {Attention::Packed, cut(4, 1024, 4, 1)},
                        {Attention::Varlen, {0, 1, 3}},
                        {Attention::Varlen, {0, 1, 2, 3, 700, 701}},
                        {Attention::Varlen, {0, 1024}},
                        {Attention::Varlen, cut(4, 1024, 4, 1)},
                        {Attention::Varlen, cut(4, 1024, 64, 3)},
                        {Attention::Varlen, cut(4, 1024, 65, 4)},
                        {Attention::Varlen, cut(4, 1024, 128, 5)},
                        {Attention::Varlen, cut(4, 1024, 150, 6)},
                        {Attention::Varlen, cut(4, 1024, 256, 7)}};
  for (const auto& [path, cu] : cases) {
    const Inputs in(cu.back());
    const Tensors reference = expected(in, cu);
    for (const MlaAttention choice : kChoices)
      if (choice != MlaAttention::Cudnn || board_has_cudnn())
        expect_near(run(in, segments(cu), path, choice),
                    reference,
                    choice == MlaAttention::Math ? 3 * kHalfRounding : kBound,
                    fmt::format("choice {}, {} {}",
                                static_cast<int>(choice),
                                cu.size() - 1,
                                path == Attention::Packed ? "rows" : "documents")
                        .c_str());
  }
}

TEST_F(JoinedAttentionGpu, OtherWidthsAndFp16) {
  if (!board_has_cudnn()) GTEST_SKIP() << "needs compute capability 9.0";
  const Cu documents = cut(2, 1024, 20, 8), rows = cut(2, 1024, 2, 1);
  for (const auto& [heads, width] : {std::pair(4, 128), std::pair(3, 32), std::pair(1, 96)})
    for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
      const Inputs in(documents.back(), heads, width, type);
      const std::string name = fmt::format("{} heads of {}", heads, width);
      expect_near(run(in, segments(documents), Attention::Varlen, MlaAttention::Cudnn),
                  expected(in, documents),
                  kBound,
                  name.c_str());
      expect_near(run(in, segments(rows), Attention::Packed, MlaAttention::Cudnn),
                  expected(in, rows),
                  kBound,
                  name.c_str());
    }
}

TEST_F(JoinedAttentionGpu, TakesAPartOfWiderRows) {
  if (!board_has_cudnn()) GTEST_SKIP() << "needs compute capability 9.0";
  const Cu cu = cut(2, 1024, 30, 9);
  const Inputs in(cu.back());
  const at::Tensor wide =
      at::full({cu.back(), 3, 12, 72}, NAN, in.weights.options()).narrow(3, 0, 64);
  wide.copy_(in.qkv.detach());
  const at::Tensor part = wide.detach().requires_grad_();
  ASSERT_FALSE(part.is_contiguous());
  const at::Tensor out = joined_attention(
      part, segments(cu), Attention::Varlen, in.scale(), MlaAttention::Cudnn, kRow);
  const at::Tensor gradient = torch::autograd::grad({out}, {part}, {in.weights}).front();
  const Tensors reference = expected(in, cu);
  EXPECT_LE(relative_rms(out, reference[0]), kBound);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_LE(relative_rms(gradient.unbind(1)[i], reference[i + 1]), kBound) << i;
}

// Other values or NaN in one document change no bit of the others' results; of dq, which is added
// up in any order, at most some words.
TEST_F(JoinedAttentionGpu, ADocumentChangesNoOther) {
  if (!board_has_cudnn()) GTEST_SKIP() << "needs compute capability 9.0";
  const Cu cu = cut(4, 1024, 48, 10);
  const Segments documents = segments(cu);
  const Inputs in(cu.back());
  const Tensors before = run(in, documents, Attention::Varlen, MlaAttention::Cudnn);
  for (const std::size_t d : {std::size_t{0}, std::size_t{17}, cu.size() - 2})
    for (const double value : {0.5, std::numeric_limits<double>::quiet_NaN()}) {
      Inputs other = in;
      other.qkv = in.qkv.detach().clone(), other.weights = in.weights.clone();
      for (const at::Tensor& x : {other.qkv, other.weights})
        x.narrow(0, cu[d], cu[d + 1] - cu[d]).fill_(value);
      other.qkv.requires_grad_();
      const Tensors after = run(other, documents, Attention::Varlen, MlaAttention::Cudnn);
      for (std::size_t i = 0; i < before.size(); ++i) {
        const at::Tensor differs = before[i].ne(after[i]),
                         own = differs.narrow(0, cu[d], cu[d + 1] - cu[d]);
        EXPECT_TRUE(own.any().item<bool>()) << i;
        own.fill_(false);
        EXPECT_LE(differs.sum().item<std::int64_t>(), i == 1 ? 20 : 0) << i << " " << d;
      }
    }
}

// Forward and backward captured once; replayed for documents that the capture never saw.
TEST_F(JoinedAttentionGpu, AGraphTakesOtherDocuments) {
  if (!board_has_cudnn()) GTEST_SKIP() << "needs compute capability 9.0";
  const Inputs in(4 * kRow);
  expect_a_graph_takes_other_documents(
      kRow,
      kBound,
      [&](const Segments& fixed) { return run(in, fixed, Attention::Varlen, MlaAttention::Cudnn); },
      [&](const Cu& cu) { return expected(in, cu); });
}

CodePath path_of(MlaAttention choice, Attention path, std::int32_t documents) {
  TrainConfig config = testing_model::small_gpt();
  config.device = Device::Cuda;
  config.precision = Precision::Bf16;
  config.head_dim = 64;
  config.seq_len = config.positions = 512;
  config.attention = path;
  config.mla_attention = choice;
  config = value_or_throw(resolve(config));
  return record_code_path(*optimizations().find("mla_attention"),
                          config,
                          {testing_model::random_batch(config, 3, cut(2, 512, documents, 12))});
}

TEST_F(JoinedAttentionGpu, EachChoiceRunsItsOwnKernel) {
  const std::pair<MlaAttention, const char*> kernels[] = {
      {MlaAttention::FlashPadded, "kernel/flash_varlen"},
      {MlaAttention::Cudnn, "kernel/cudnn_joined"},
      {MlaAttention::Efficient, "kernel/efficient_varlen"},
      {MlaAttention::Math, "kernel/math"}};
  for (const Attention path : {Attention::Packed, Attention::Varlen})
    for (const auto& [choice, kernel] : kernels) {
      if (choice == MlaAttention::Cudnn && !board_has_cudnn()) continue;
      const CodePath seen = path_of(choice, path, 20);
      for (const auto& [other, name] : kernels)
        EXPECT_EQ(seen.counters.count(name), other == choice ? 1U : 0U) << kernel << " " << name;
      const bool cudnn = choice == MlaAttention::Cudnn, rows = path == Attention::Packed;
      EXPECT_EQ(seen.counters.count("kernel/cudnn_rows"), cudnn && rows ? 1U : 0U);
      EXPECT_EQ(seen.counters.count("kernel/cudnn_documents"), cudnn && !rows ? 1U : 0U);
    }
}

TEST_F(JoinedAttentionGpu, MoreThan256DocumentsFallBackAndSayIt) {
  const std::int64_t before = fallbacks()["fallback/mla_attention"];
  const CodePath seen = path_of(MlaAttention::Cudnn, Attention::Varlen, 257);
  EXPECT_GT(fallbacks()["fallback/mla_attention"], before);
  EXPECT_EQ(seen.spans.count("mla_attention/cudnn"), 0U);
  EXPECT_EQ(seen.spans.count("mla_attention/flash_padded"), 1U);
  EXPECT_EQ(seen.counters.at("fallback/mla_attention"), 2); // of two layers
  EXPECT_EQ(seen.counters.count("kernel/flash_varlen"), 1U);
}

} // namespace joined_attention_gpu_test
} // namespace assay
