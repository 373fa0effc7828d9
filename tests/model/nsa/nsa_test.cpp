// Native sparse attention against the loop of the paper in fp64, against central differences, and
// under changes that must not be seen. Two wrong forms that were trained elsewhere are rejected.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>

#include "model/gates/gates.h"
#include "model/layers/attention/chunked_attention.h"
#include "model/layout/segments.h"
#include "tests/model/nsa/nsa_fixture.h"

namespace assay {
namespace nsa_test {

using testing_model::kNsaGroups;
using testing_model::nsa_loop;
using testing_model::nsa_tensors;
using testing_model::random_nsa_inputs;

using Cu = std::vector<std::int32_t>;
using Operator = std::function<at::Tensor(const NsaInputs&, const NsaLayoutPtr&)>;

constexpr NsaShape kSmall{8, 4, 16, 5, 12}, kSeed{32, 16, 64, 16, 512}, kLongBlocks{16, 4, 8, 4, 9};
const Cu kRagged{0, 1, 3, 18, 82, 147, 150, 250};

NsaLayoutPtr layout_of(const Cu& cu, const NsaShape& shape, std::int64_t chunk = kNsaQueryChunk) {
  return std::make_shared<const NsaLayout>(
      make_nsa_layout(segments_of(cu, at::kCPU), shape, chunk));
}

struct Case {
  const char* name;
  Cu cu;
  NsaShape shape;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::int32_t length : {1, 2, 15, 63, 64, 65, 130})
    all.push_back({"one", {0, length}, kSmall});
  all.push_back({"ragged", kRagged, kSmall});
  all.push_back({"long_blocks", {0, 5, 90, 131}, kLongBlocks});
  all.push_back({"seed", {0, 160, 210}, kSeed});
  return all;
}

class NsaOperator : public testing::TestWithParam<Case> {};

TEST_P(NsaOperator, EqualsTheLoop) {
  const Case& c = GetParam();
  const NsaInputs in = random_nsa_inputs(c.cu.back(), 6, 1);
  EXPECT_LE(relative_rms(nsa_attention(in, layout_of(c.cu, c.shape)), nsa_loop(in, c.cu, c.shape)),
            1e-10);
}

at::Tensor loss_of(const at::Tensor& out) {
  return (out * at::linspace(-1, 1, out.numel(), out.options()).view_as(out).cos()).sum();
}

std::vector<at::Tensor> gradients(NsaInputs in, const NsaLayoutPtr& layout) {
  for (at::Tensor* x : nsa_tensors(in)) *x = x->detach().clone().requires_grad_();
  loss_of(nsa_attention(in, layout)).backward();
  std::vector<at::Tensor> result;
  for (at::Tensor* x : nsa_tensors(in)) result.push_back(x->grad());
  return result;
}

TEST_P(NsaOperator, ChunksOfAnyLengthAgree) {
  const Case& c = GetParam();
  const NsaInputs in = random_nsa_inputs(c.cu.back(), 6, 2);
  const NsaLayoutPtr whole = layout_of(c.cu, c.shape), cut = layout_of(c.cu, c.shape, 7);
  EXPECT_LE(relative_rms(nsa_attention(in, cut), nsa_attention(in, whole)), 1e-12);
  const std::vector<at::Tensor> a = gradients(in, whole), b = gradients(in, cut);
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_LE((a[i] - b[i]).abs().max().item<double>(), 1e-12) << i;
}

// Attention token by token: the same function, and the same gradients.
TEST_P(NsaOperator, TokenByTokenEqualsTheBatchedForm) {
  const Case& c = GetParam();
  const NsaInputs batched = random_nsa_inputs(c.cu.back(), 6, 10);
  NsaInputs loop = batched;
  loop.form = NsaForm::PerToken;
  const NsaLayoutPtr layout = layout_of(c.cu, c.shape);
  EXPECT_LE(relative_rms(nsa_attention(loop, layout), nsa_attention(batched, layout)), 1e-12);
  const std::vector<at::Tensor> a = gradients(loop, layout), b = gradients(batched, layout);
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_LE((a[i] - b[i]).abs().max().item<double>(), 1e-11) << i;
}

INSTANTIATE_TEST_SUITE_P(Lengths, NsaOperator, testing::ValuesIn(cases()), [](const auto& row) {
  return std::string(row.param.name) + "_" + std::to_string(row.param.cu.back());
});

TEST(Nsa, GradientsEqualCentralDifferences) {
  const NsaShape shape{4, 2, 4, 4, 5};
  const NsaLayoutPtr layout = layout_of({0, 3, 30, 41}, shape, 16);
  NsaInputs in = random_nsa_inputs(41, 3, 3);
  const std::vector<at::Tensor> analytic = gradients(in, layout);
  const at::NoGradGuard no_grad;
  constexpr double kStep = 1e-5;
  const std::vector<at::Tensor*> inputs = nsa_tensors(in);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    double* values = inputs[i]->data_ptr<double>();
    const at::Tensor expected = analytic[i].contiguous();
    for (std::int64_t at = 0; at < inputs[i]->numel(); at += 5) {
      const double kept = values[at];
      values[at] = kept + kStep;
      const double up = loss_of(nsa_attention(in, layout)).item<double>();
      values[at] = kept - kStep;
      const double down = loss_of(nsa_attention(in, layout)).item<double>();
      values[at] = kept;
      EXPECT_NEAR((up - down) / (2 * kStep), expected.data_ptr<double>()[at], 1e-6)
          << i << " at " << at;
    }
  }
}

// Replaces rows [begin, end) of every input.
NsaInputs changed(NsaInputs in, std::int64_t begin, std::int64_t end) {
  const NsaInputs other = random_nsa_inputs(end - begin, in.q.size(2), 99);
  NsaInputs fresh = other;
  const std::vector<at::Tensor*> to = nsa_tensors(in), from = nsa_tensors(fresh);
  for (std::size_t i = 0; i < to.size(); ++i) {
    *to[i] = to[i]->clone();
    to[i]->narrow(0, begin, end - begin).copy_(*from[i]);
  }
  return in;
}

// Tokens whose change was seen by an earlier one of the same batch.
int leaks(const Operator& form, const Cu& cu, const NsaShape& shape) {
  const NsaLayoutPtr layout = layout_of(cu, shape);
  const NsaInputs in = random_nsa_inputs(cu.back(), 6, 4);
  const at::Tensor before = form(in, layout);
  int seen = 0;
  for (std::int64_t t = 1; t < cu.back(); ++t)
    if (!at::equal(form(changed(in, t, t + 1), layout).narrow(0, 0, t), before.narrow(0, 0, t)))
      ++seen;
  return seen;
}

double distance_to_loop(const Operator& form, const Cu& cu, const NsaShape& shape) {
  const NsaInputs in = random_nsa_inputs(cu.back(), 6, 5);
  return relative_rms(form(in, layout_of(cu, shape)), nsa_loop(in, cu, shape));
}

TEST(Nsa, LaterTokensChangeNothing) {
  EXPECT_EQ(leaks(nsa_attention, {0, 130}, kSmall), 0);
  EXPECT_EQ(leaks(nsa_attention, {0, 30, 130}, kSmall), 0);
}

TEST(Nsa, OtherDocumentsChangeNothing) {
  const NsaLayoutPtr layout = layout_of(kRagged, kSmall);
  const NsaInputs in = random_nsa_inputs(kRagged.back(), 6, 6);
  const at::Tensor before = nsa_attention(in, layout);
  for (std::size_t i = 1; i < kRagged.size(); ++i) {
    const std::int64_t begin = kRagged[i - 1], end = kRagged[i], rest = kRagged.back() - end;
    const at::Tensor after = nsa_attention(changed(in, begin, end), layout);
    EXPECT_TRUE(at::equal(after.narrow(0, 0, begin), before.narrow(0, 0, begin))) << i;
    EXPECT_TRUE(at::equal(after.narrow(0, end, rest), before.narrow(0, end, rest))) << i;
    EXPECT_FALSE(at::equal(after, before)) << i;
  }
}

// The operator from the product's pieces, with two of them replaceable.
using Scores = std::function<at::Tensor(
    const at::Tensor&, const at::Tensor&, const NsaLayout&, std::size_t, double)>;

Operator assembled(const Scores& scores, const decltype(&nsa_compressed_attention)& compressed) {
  return [=](const NsaInputs& in, const NsaLayoutPtr& layout) {
    const at::Tensor k = nsa_compress(in.k_cmp, layout), v = nsa_compress(in.v_cmp, layout);
    std::vector<at::Tensor> blocks;
    for (std::size_t i = 0; i < layout->selection_chunks.size(); ++i)
      blocks.push_back(nsa_top_blocks(scores(in.q, k, *layout, i, in.scale), *layout, i));
    return nsa_mix(
        {compressed(in.q, k, v, layout, in.scale),
         nsa_selected_attention(in.q, in.k_sel, in.v_sel, at::cat(blocks), layout, in.scale),
         nsa_window_attention(in.q, in.k_win, in.v_win, layout, in.scale)},
        in.gates);
  };
}

// The first compressed value for every query.
at::Tensor first_value(const at::Tensor& q,
                       const at::Tensor&,
                       const at::Tensor& v_compressed,
                       const NsaLayoutPtr&,
                       double) {
  return v_compressed[0].repeat_interleave(q.size(1) / v_compressed.size(1), 0).expand_as(q);
}

at::Tensor masked_scores(const at::Tensor& q,
                         const at::Tensor& k_compressed,
                         const NsaLayout& layout,
                         std::size_t index,
                         double scale) {
  return nsa_block_scores(q, k_compressed, layout, index, scale);
}

// Blocks that end after the query take part in the softmax behind the selection scores.
at::Tensor unmasked_scores(const at::Tensor& q,
                           const at::Tensor& k_compressed,
                           const NsaLayout& layout,
                           std::size_t index,
                           double scale) {
  return nsa_block_scores(q, k_compressed, layout, index, scale, /*causal=*/false);
}

TEST(Nsa, WrongFormsAreRejected) {
  const Cu one{0, 130};
  const Operator right = assembled(masked_scores, nsa_compressed_attention);
  EXPECT_LE(distance_to_loop(right, one, kSmall), 1e-10);
  EXPECT_EQ(leaks(right, one, kSmall), 0);
  const Operator first = assembled(masked_scores, first_value);
  EXPECT_GT(distance_to_loop(first, one, kSmall), 1e-2);
  const Operator first_token = [](NsaInputs in, const NsaLayoutPtr& layout) {
    in.form = NsaForm::FirstValue;
    return nsa_attention(in, layout);
  };
  EXPECT_GT(distance_to_loop(first_token, one, kSmall), 1e-2);
  EXPECT_GT(leaks(first, one, kSmall), 0);
  const Operator leaky = assembled(unmasked_scores, nsa_compressed_attention);
  EXPECT_GT(distance_to_loop(leaky, one, kSmall), 1e-2);
  EXPECT_GT(leaks(leaky, one, kSmall), 0);
  const Operator level = [](NsaInputs in, const NsaLayoutPtr& layout) {
    in.form = NsaForm::FutureScores;
    return nsa_attention(in, layout);
  };
  EXPECT_GT(distance_to_loop(level, one, kSmall), 1e-2);
  EXPECT_GT(leaks(level, one, kSmall), 0);
}

// As many random cases as 2 s allow, 10,000 at most.
TEST(Nsa, ScatterChoosesTheBlocksOfTheProduct) {
  const auto start = std::chrono::steady_clock::now();
  std::uint64_t seed = 0;
  for (; seed < 10'000 && std::chrono::steady_clock::now() - start < std::chrono::seconds(2);
       ++seed) {
    const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
    const at::Tensor lengths = at::empty({3}, at::kLong).random_(1, 60, generator).cumsum(0);
    const std::int64_t* ends = lengths.const_data_ptr<std::int64_t>();
    Cu cu{0};
    for (int i = 0; i < 3; ++i) cu.push_back(static_cast<std::int32_t>(ends[i]));
    const NsaShape& shape = seed % 2 == 0 ? kSmall : kLongBlocks;
    NsaShape pairs = shape;
    pairs.overlap_pairs = true;
    const std::int64_t chunk = seed % 3 == 0 ? 17 : kNsaQueryChunk;
    const NsaLayoutPtr dense = layout_of(cu, shape, chunk), coo = layout_of(cu, pairs, chunk);
    const NsaInputs in = random_nsa_inputs(cu.back(), 4, seed);
    const at::Tensor k = nsa_compress(in.k_cmp, dense);
    for (std::size_t i = 0; i < dense->selection_chunks.size(); ++i)
      ASSERT_LE((nsa_block_scores(in.q, k, *coo, i, in.scale) -
                 nsa_block_scores(in.q, k, *dense, i, in.scale))
                    .abs()
                    .max()
                    .item<double>(),
                1e-12)
          << seed;
    ASSERT_TRUE(at::equal(nsa_select_blocks(in.q, k, *coo, in.scale),
                          nsa_select_blocks(in.q, k, *dense, in.scale)))
        << seed;
  }
  EXPECT_GT(seed, 20U);
}

TEST(Nsa, OverlapIsTheSharedTokensOverTheStride) {
  for (const NsaShape& shape : {kSmall, kSeed, kLongBlocks}) {
    const Cu cu{0, 7, 140, 300};
    const NsaLayoutPtr layout = layout_of(cu, shape);
    std::int64_t compressed = 0, selection = 0;
    at::Tensor expected = at::zeros_like(layout->overlap);
    for (std::size_t i = 1; i < cu.size(); ++i) {
      const std::int64_t length = cu[i] - cu[i - 1];
      const std::int64_t blocks = (length + shape.select_block - 1) / shape.select_block;
      std::int64_t whole = 0;
      for (std::int64_t first = 0; first + shape.block <= length; first += shape.stride, ++whole)
        for (std::int64_t t = first; t < first + shape.block; ++t)
          expected[compressed + whole][selection + t / shape.select_block] +=
              1.0 / static_cast<double>(shape.stride);
      compressed += whole;
      selection += blocks;
    }
    ASSERT_EQ(layout->compressed_blocks, compressed);
    ASSERT_EQ(layout->selection_blocks, selection);
    EXPECT_LE((layout->overlap - expected).abs().max().item<double>(), 1e-5);
  }
}

std::vector<std::int64_t> numbers(const at::Tensor& x) {
  return {x.data_ptr<std::int64_t>(), x.data_ptr<std::int64_t>() + x.numel()};
}

TEST(Nsa, EqualScoresSelectTheEarlierBlocks) {
  const NsaLayoutPtr layout = layout_of({0, 40, 200}, kSmall);
  const at::Tensor scores = at::zeros({kNsaGroups, 200, layout->selection_blocks}, at::kDouble);
  const at::Tensor blocks = nsa_top_blocks(scores, *layout, 0);
  using Numbers = std::vector<std::int64_t>;
  EXPECT_EQ(numbers(blocks[0][0]), (Numbers{0, -1, -1, -1, -1}));
  EXPECT_EQ(numbers(blocks[39][1]), (Numbers{0, 1, 2, -1, -1}));
  EXPECT_EQ(numbers(blocks[40][0]), (Numbers{0, -1, -1, -1, -1})); // the second document's first
  EXPECT_EQ(numbers(blocks[40 + 150][1]), (Numbers{0, 1, 2, 8, 9}));
  scores.select(2, 3 + 5).fill_(1e-3); // block 5 of the second document
  EXPECT_EQ(numbers(nsa_top_blocks(scores, *layout, 0)[40 + 150][0]), (Numbers{0, 1, 5, 8, 9}));
}

TEST(Nsa, AQueryWithoutACompressedBlockGetsZero) {
  const NsaLayoutPtr layout = layout_of({0, 7, 30}, kSmall);
  const NsaInputs in = random_nsa_inputs(30, 6, 7);
  const at::Tensor k = nsa_compress(in.k_cmp, layout), v = nsa_compress(in.v_cmp, layout);
  const at::Tensor out = nsa_compressed_attention(in.q, k, v, layout, 0.5);
  EXPECT_TRUE(out.narrow(0, 0, 14).eq(0).all().item<bool>()); // 7 of the first, 7 of the second
  EXPECT_TRUE(out.narrow(0, 14, 16).ne(0).all().item<bool>());
}

TEST(Nsa, OtherTypesComputeTheSoftmaxInFp32) {
  const NsaLayoutPtr layout = layout_of(kRagged, kSmall);
  const NsaInputs exact = random_nsa_inputs(kRagged.back(), 6, 8);
  const at::Tensor k = nsa_compress(exact.k_cmp, layout);
  const at::Tensor blocks = nsa_select_blocks(exact.q, k, *layout, exact.scale);
  const auto run = [&](at::ScalarType type) {
    const at::Tensor q = exact.q.to(type);
    return nsa_mix(
        {nsa_compressed_attention(q,
                                  nsa_compress(exact.k_cmp.to(type), layout),
                                  nsa_compress(exact.v_cmp.to(type), layout),
                                  layout,
                                  exact.scale),
         nsa_selected_attention(
             q, exact.k_sel.to(type), exact.v_sel.to(type), blocks, layout, exact.scale),
         nsa_window_attention(q, exact.k_win.to(type), exact.v_win.to(type), layout, exact.scale)},
        exact.gates);
  };
  const at::Tensor expected = nsa_attention(exact, layout);
  EXPECT_LE(relative_rms(run(at::kFloat), expected), 1e-5);
  EXPECT_LE(relative_rms(run(at::kBFloat16), expected), 1e-2);
  EXPECT_LE(relative_rms(run(at::kHalf), expected), 2e-3);
  EXPECT_EQ(run(at::kBFloat16).scalar_type(), at::kBFloat16);
}

// What the cost model counts is what the selection and the intervals really hold.
TEST(Nsa, KeysOfTheCostModelAreThoseThatAreRead) {
  for (const NsaShape& shape : {kSmall, kSeed, kLongBlocks}) {
    constexpr std::int64_t kLength = 300;
    const NsaLayoutPtr layout = layout_of({0, kLength}, shape);
    const NsaInputs in = random_nsa_inputs(kLength, 6, 9);
    const at::Tensor blocks =
        nsa_select_blocks(in.q, nsa_compress(in.k_cmp, layout), *layout, in.scale);
    std::int64_t selected = 0;
    for (std::int64_t t = 0; t < kLength; ++t)
      for (const std::int64_t j : numbers(blocks[t][1].contiguous()))
        if (j >= 0) selected += std::min(shape.select_block, t + 1 - j * shape.select_block);
    const auto mean = [](const Intervals& x) {
      return (x.end - x.first).sum().item<double>() / kLength;
    };
    const NsaKeys keys = nsa_keys(shape, kLength);
    EXPECT_NEAR(keys.compressed, mean(layout->compressed), 1e-9);
    EXPECT_NEAR(keys.selected, static_cast<double>(selected) / kLength, 1e-9);
    EXPECT_NEAR(keys.window, mean(layout->window), 1e-9);
  }
}

} // namespace nsa_test
} // namespace assay
