// What computes the attention of latent attention on a GPU: cuDNN's plans for rows and documents,
// the memory-efficient kernel and the plain form, each against fp32 by document.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <limits>

#include "core/fallback.h"
#include "model/gates/gates.h"
#include "model/layers/attention/mla_attention.h"
#include "tests/model/gpu/attention_gpu.h"
#include "tests/model/model_fixture.h"

namespace assay {
namespace mla_attention_gpu_test {

using testing_model::AttentionGpu, testing_model::Cu, testing_model::Tensors;
using testing_model::cut, testing_model::plain_attention, testing_model::segments;
using testing_model::expect_a_graph_takes_other_documents, testing_model::expect_near;

constexpr std::int32_t kRow = 2048;
constexpr double kBound = 5e-3, kHalfRounding = 1e-3;

using MlaAttentionGpu = AttentionGpu;

struct Widths {
  std::int64_t heads = 12, qk = 96, v = 64;
};

// Leaves in `type`, and what the result is multiplied with before its sum.
struct Inputs {
  at::Tensor q, k, v, weights;

  Inputs(std::int64_t tokens, Widths w, at::ScalarType type) {
    const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(3);
    const auto normal = [&](std::int64_t width) {
      return at::empty({tokens, w.heads, width}).normal_(0, 1, generator).to(at::kCUDA, type);
    };
    q = normal(w.qk).requires_grad_(), k = normal(w.qk).requires_grad_();
    v = normal(w.v).requires_grad_(), weights = normal(w.v);
  }
  double scale() const { return 1 / std::sqrt(static_cast<double>(q.size(2))); }
};

Tensors results(const Inputs& in, const at::Tensor& out) {
  Tensors all{out.detach()};
  for (const at::Tensor& x :
       torch::autograd::grad({out}, {in.q, in.k, in.v}, {in.weights.to(out.scalar_type())}))
    all.push_back(x);
  return all;
}

Tensors expected(const Inputs& in, const Cu& cu) {
  Inputs exact = in;
  for (at::Tensor* x : {&exact.q, &exact.k, &exact.v})
    *x = x->detach().to(at::kFloat).requires_grad_();
  return results(exact, plain_attention(exact.q, exact.k, exact.v, cu, in.scale()));
}

Tensors run(const Inputs& in, const Segments& segments, Attention path, MlaAttention choice) {
  return results(in, mla_attention(in.q, in.k, in.v, segments, path, in.scale(), choice, kRow));
}

TEST_F(MlaAttentionGpu, RowsAreTheSoftmax) {
  for (const auto& [rows, length] : {std::pair(1, 64), std::pair(3, 200), std::pair(4, 2048)}) {
    const Cu cu = cut(rows, length, rows, 1);
    const Inputs in(cu.back(), {}, at::kBFloat16);
    const Tensors reference = expected(in, cu);
    for (const MlaAttention choice :
         {MlaAttention::FlashPadded, MlaAttention::Cudnn, MlaAttention::Efficient})
      if (choice != MlaAttention::Cudnn || board_has_cudnn())
        expect_near(run(in, segments(cu), Attention::Packed, choice), reference, kBound, "rows");
    expect_near(run(in, segments(cu), Attention::Packed, MlaAttention::Math),
                reference,
                3 * kHalfRounding,
                "math");
  }
}

// Every room of the plans, of one shape; documents of one token; one document; batches of few
// tokens. The same plan takes each batch of a room.
TEST_F(MlaAttentionGpu, DocumentsAreTheSoftmax) {
  const Cu batches[] = {{0, 1, 3},
                        {0, 1, 2, 3, 700, 701},
                        {0, 2048},
                        cut(4, 2048, 4, 1),
                        cut(4, 2048, 40, 2),
                        cut(4, 2048, 64, 3),
                        cut(4, 2048, 65, 4),
                        cut(4, 2048, 128, 5),
                        cut(4, 2048, 150, 6),
                        cut(4, 2048, 256, 7)};
  for (const Cu& cu : batches) {
    const Inputs in(cu.back(), {}, at::kBFloat16);
    const Tensors reference = expected(in, cu);
    for (const MlaAttention choice :
         {MlaAttention::FlashPadded, MlaAttention::Cudnn, MlaAttention::Efficient})
      if (choice != MlaAttention::Cudnn || board_has_cudnn())
        expect_near(run(in, segments(cu), Attention::Varlen, choice),
                    reference,
                    kBound,
                    std::to_string(cu.size() - 1).c_str());
  }
}

TEST_F(MlaAttentionGpu, OtherWidthsAndFp16) {
  if (!board_has_cudnn()) GTEST_SKIP() << "needs compute capability 9.0";
  const Cu cu = cut(2, 1024, 20, 8);
  for (const Widths w : {Widths{4, 128, 64}, Widths{3, 64, 32}, Widths{1, 96, 64}})
    for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
      const Inputs in(cu.back(), w, type);
      expect_near(run(in, segments(cu), Attention::Varlen, MlaAttention::Cudnn),
                  expected(in, cu),
                  kBound,
                  "another width");
    }
}

// As products give them: q in rows of 1440, v the second half of each head's 128.
TEST_F(MlaAttentionGpu, TakesPartsOfWiderRows) {
  if (!board_has_cudnn()) GTEST_SKIP() << "needs compute capability 9.0";
  const Cu cu = cut(4, 2048, 50, 9);
  Inputs in(cu.back(), {}, at::kBFloat16);
  const Tensors reference = expected(in, cu);
  const std::int64_t tokens = cu.back();
  const at::TensorOptions options = in.q.options().requires_grad(false);
  const at::Tensor wide = at::full({tokens, 1440}, NAN, options),
                   pairs = at::full({tokens, 12, 128}, NAN, options);
  wide.narrow(1, 0, 1152).copy_(in.q.detach().view({tokens, 1152}));
  pairs.narrow(2, 64, 64).copy_(in.v.detach());
  in.q = wide.narrow(1, 0, 1152).unflatten(1, {12, 96}).detach().requires_grad_();
  in.v = pairs.narrow(2, 64, 64).detach().requires_grad_();
  ASSERT_FALSE(in.q.is_contiguous() || in.v.is_contiguous());
  for (const Attention path : {Attention::Packed, Attention::Varlen}) {
    const Cu own = path == Attention::Packed ? cut(4, 2048, 4, 1) : cu;
    const Tensors exact = path == Attention::Packed ? expected(in, own) : reference;
    expect_near(run(in, segments(own), path, MlaAttention::Cudnn), exact, kBound, "parts");
  }
}

// Other values or NaN in one document change no bit of the others' results; of dq, which is added
// up in any order, at most some words.
TEST_F(MlaAttentionGpu, ADocumentChangesNoOther) {
  if (!board_has_cudnn()) GTEST_SKIP() << "needs compute capability 9.0";
  const Cu cu = cut(4, 2048, 48, 10);
  const Segments documents = segments(cu);
  const Inputs in(cu.back(), {}, at::kBFloat16);
  const Tensors before = run(in, documents, Attention::Varlen, MlaAttention::Cudnn);
  for (const std::size_t d : {std::size_t{0}, std::size_t{17}, cu.size() - 2})
    for (const double value : {0.5, std::numeric_limits<double>::quiet_NaN()}) {
      Inputs other = in;
      for (at::Tensor* x : {&other.q, &other.k, &other.v, &other.weights}) {
        *x = x->detach().clone();
        x->narrow(0, cu[d], cu[d + 1] - cu[d]).fill_(value);
        if (x != &other.weights) x->requires_grad_();
      }
      const Tensors after = run(other, documents, Attention::Varlen, MlaAttention::Cudnn);
      for (std::size_t i = 0; i < before.size(); ++i) {
        at::Tensor differs = before[i].ne(after[i]);
        EXPECT_TRUE(differs.narrow(0, cu[d], cu[d + 1] - cu[d]).any().item<bool>()) << i;
        differs.narrow(0, cu[d], cu[d + 1] - cu[d]).fill_(false);
        EXPECT_LE(differs.sum().item<std::int64_t>(), i == 1 ? 20 : 0) << i << " " << d;
      }
    }
}

// As a captured graph has them: the end repeated.
TEST_F(MlaAttentionGpu, EmptyDocumentsAtTheEndChangeNothing) {
  if (!board_has_cudnn()) GTEST_SKIP() << "needs compute capability 9.0";
  const Cu cu = cut(4, 2048, 40, 11);
  const Inputs in(cu.back(), {}, at::kBFloat16);
  Segments padded = segments(cu);
  padded.cu = at::cat({padded.cu, padded.cu.narrow(0, padded.cu.size(0) - 1, 1).expand({24})});
  const Tensors plain = run(in, segments(cu), Attention::Varlen, MlaAttention::Cudnn),
                with_empty = run(in, padded, Attention::Varlen, MlaAttention::Cudnn);
  for (const std::size_t i : {0, 2, 3}) EXPECT_TRUE(at::equal(plain[i], with_empty[i])) << i;
  EXPECT_LE(relative_rms(with_empty[1], plain[1]), 1e-4);
}

// Forward and backward captured once; replayed for documents that the capture never saw.
TEST_F(MlaAttentionGpu, AGraphTakesOtherDocuments) {
  if (!board_has_cudnn()) GTEST_SKIP() << "needs compute capability 9.0";
  const Inputs in(4 * kRow, {}, at::kBFloat16);
  expect_a_graph_takes_other_documents(
      kRow,
      kBound,
      [&](const Segments& fixed) { return run(in, fixed, Attention::Varlen, MlaAttention::Cudnn); },
      [&](const Cu& cu) { return expected(in, cu); });
}

TrainConfig model_config(MlaAttention choice) {
  TrainConfig config = testing_model::small_config();
  config.device = Device::Cuda;
  config.precision = Precision::Bf16;
  config.head_dim = 64, config.rope_dim = 32;
  config.seq_len = 512;
  config.mla_attention = choice;
  return value_or_throw(resolve(config));
}

CodePath path_of(const TrainConfig& config, std::int32_t documents) {
  Cu borders = cut(2, 512, documents, 12);
  return record_code_path(*optimizations().find("mla_attention"),
                          config,
                          {testing_model::random_batch(config, 3, std::move(borders))});
}

TEST_F(MlaAttentionGpu, EachChoiceRunsItsOwnKernel) {
  const std::pair<MlaAttention, const char*> kernels[] = {
      {MlaAttention::FlashPadded, "kernel/flash_varlen"},
      {MlaAttention::Cudnn, "kernel/cudnn_documents"},
      {MlaAttention::Efficient, "kernel/efficient_varlen"},
      {MlaAttention::Math, "kernel/math"}};
  for (const auto& [choice, kernel] : kernels) {
    if (choice == MlaAttention::Cudnn && !board_has_cudnn()) continue;
    const CodePath seen = path_of(model_config(choice), 20);
    for (const auto& [other, name] : kernels)
      EXPECT_EQ(seen.counters.count(name), other == choice ? 1U : 0U) << kernel << " " << name;
  }
  if (!board_has_cudnn()) return;
  TrainConfig rows = model_config(MlaAttention::Cudnn);
  rows.attention = Attention::Packed;
  EXPECT_EQ(path_of(rows, 20).counters.count("kernel/cudnn_rows"), 1U);
}

TEST_F(MlaAttentionGpu, MoreThan256DocumentsFallBackAndSayIt) {
  const std::int64_t before = fallbacks()["fallback/mla_attention"];
  const CodePath seen = path_of(model_config(MlaAttention::Cudnn), 257);
  EXPECT_GT(fallbacks()["fallback/mla_attention"], before);
  EXPECT_EQ(seen.spans.count("mla_attention/cudnn"), 0U);
  EXPECT_EQ(seen.spans.count("mla_attention/flash_padded"), 1U);
  EXPECT_EQ(seen.counters.at("fallback/mla_attention"), 1);
  EXPECT_EQ(seen.counters.count("kernel/flash_varlen"), 1U);
}

} // namespace mla_attention_gpu_test
} // namespace assay
