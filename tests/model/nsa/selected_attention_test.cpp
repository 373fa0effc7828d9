// The tensor form of selected attention against a loop over tokens and against central differences,
// in fp64.
#include <gtest/gtest.h>

#include <cmath>

#include "core/result.h"
#include "model/gates/gates.h"
#include "model/layers/autocast.h"
#include "model/nsa/nsa_ranges.h"
#include "model/nsa/selected_attention.h"
#include "tests/model/nsa/selection_fixture.h"

namespace assay {
namespace selected_attention_test {

using testing_model::document_starts;
using testing_model::make_blocks;
using testing_model::positions_of;
using testing_model::selection_cases;
using testing_model::SelectionCase;

constexpr double kScale = 0.4;

struct Inputs {
  at::Tensor q, k, v;
};

Inputs random_inputs(std::int64_t tokens,
                     std::int64_t heads,
                     std::int64_t groups,
                     std::int64_t width,
                     std::uint64_t seed) {
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const auto normal = [&](std::int64_t count) {
    return at::empty({tokens, count, width}, at::kDouble).normal_(0, 1, generator);
  };
  Inputs in;
  in.q = normal(heads);
  in.k = normal(groups);
  in.v = normal(groups);
  return in;
}

struct Selected {
  Selection blocks, ranges; // the same tokens
};

Selected select_blocks(const SelectionCase& how,
                       const std::vector<std::int32_t>& cu,
                       std::int64_t groups,
                       std::int64_t slots,
                       std::int64_t block_size) {
  const at::Tensor positions = positions_of(cu);
  const at::Tensor blocks = make_blocks(how, positions, groups, slots, block_size);
  const at::Tensor starts = document_starts(cu);
  return {{blocks.squeeze(0), starts, block_size},
          {ranges_kernel(blocks, block_size, positions).squeeze(0), starts, block_size}};
}

const std::vector<std::int32_t> kDocuments{0, 1, 24, 26, 60};

// Every head of every query on its own: collects the selected tokens, softmax, weighted sum.
at::Tensor by_loop(const Inputs& in, const Selection& selection) {
  const std::int64_t heads = in.q.size(1), width = in.q.size(2), slots = selection.chosen.size(2);
  const at::Tensor out = at::zeros_like(in.q);
  const auto start = selection.document_start.accessor<std::int32_t, 1>();
  const auto blocks = selection.chosen.accessor<std::int64_t, 3>();
  const auto q = in.q.accessor<double, 3>(), k = in.k.accessor<double, 3>(),
             v = in.v.accessor<double, 3>();
  auto result = out.accessor<double, 3>();
  for (std::int64_t t = 0; t < in.q.size(0); ++t)
    for (std::int64_t h = 0; h < heads; ++h) {
      const std::int64_t g = h / (heads / in.k.size(1));
      double total = 0;
      for (std::int64_t token = start[t]; token <= t; ++token) {
        bool selected = false;
        for (std::int64_t i = 0; i < slots; ++i)
          selected |= blocks[t][g][i] == (token - start[t]) / selection.block_size;
        if (!selected) continue;
        double score = 0;
        for (std::int64_t d = 0; d < width; ++d) score += q[t][h][d] * k[token][g][d];
        const double weight = std::exp(score * kScale);
        total += weight;
        for (std::int64_t d = 0; d < width; ++d) result[t][h][d] += weight * v[token][g][d];
      }
      for (std::int64_t d = 0; d < width && total > 0; ++d) result[t][h][d] /= total;
    }
  return out;
}

class SelectedAttentionCases : public testing::TestWithParam<SelectionCase> {};

TEST_P(SelectedAttentionCases, EqualsTheLoopOverTokens) {
  for (const std::int64_t block_size : {1, 4, 16})
    for (const std::int64_t slots : {1, 6}) {
      const Inputs in = random_inputs(60, 6, 2, 5, 1);
      const Selected selected = select_blocks(GetParam(), kDocuments, 2, slots, block_size);
      const at::Tensor expected = by_loop(in, selected.blocks);
      for (const Selection* form : {&selected.blocks, &selected.ranges}) {
        const at::Tensor out = selected_attention(in.q, in.k, in.v, *form, kScale);
        EXPECT_LE((out - expected).abs().max().item<double>(), 1e-10);
      }
    }
}

std::vector<at::Tensor> gradients(Inputs in, const Selection& selection) {
  for (at::Tensor* x : {&in.q, &in.k, &in.v}) *x = x->detach().clone().requires_grad_();
  const at::Tensor out = selected_attention(in.q, in.k, in.v, selection, kScale);
  (out * at::linspace(-1, 1, out.numel(), at::kDouble).view_as(out).cos()).sum().backward();
  return {in.q.grad(), in.k.grad(), in.v.grad()};
}

TEST_P(SelectedAttentionCases, GradientsEqualCentralDifferences) {
  const Inputs in = random_inputs(60, 4, 2, 3, 2);
  const Selected selected = select_blocks(GetParam(), kDocuments, 2, 4, 4);
  const auto analytic = gradients(in, selected.blocks), by_ranges = gradients(in, selected.ranges);
  const at::Tensor weights = at::linspace(-1, 1, in.q.numel(), at::kDouble).view_as(in.q).cos();
  const auto loss = [&] { return (by_loop(in, selected.blocks) * weights).sum().item<double>(); };
  const at::Tensor inputs[] = {in.q, in.k, in.v};
  const char* names[] = {"q", "k", "v"};
  constexpr double kStep = 1e-5;
  for (std::size_t i = 0; i < 3; ++i) {
    double* values = inputs[i].data_ptr<double>();
    const at::Tensor expected = analytic[i].contiguous();
    EXPECT_LE((by_ranges[i] - expected).abs().max().item<double>(), 1e-12) << names[i];
    for (std::int64_t at = 0; at < inputs[i].numel(); at += 31) {
      const double kept = values[at];
      values[at] = kept + kStep;
      const double up = loss();
      values[at] = kept - kStep;
      const double down = loss();
      values[at] = kept;
      EXPECT_NEAR((up - down) / (2 * kStep), expected.data_ptr<double>()[at], 1e-6)
          << names[i] << " at " << at;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases,
                         SelectedAttentionCases,
                         testing::ValuesIn(selection_cases()),
                         [](const auto& row) { return row.param.name; });

// Several parts of queries: 8 slots of 64 tokens of width 64 leave 2^22 / 2^15 = 128 queries each.
TEST(SelectedAttention, PartsOfQueriesJoin) {
  const std::vector<std::int32_t> cu{0, 130, 300};
  const Inputs in = random_inputs(300, 1, 1, 64, 3);
  const Selected selected = select_blocks(selection_cases().front(), cu, 1, 8, 64);
  EXPECT_LE(relative_rms(selected_attention(in.q, in.k, in.v, selected.ranges, kScale),
                         by_loop(in, selected.blocks)),
            1e-10);
}

TEST(SelectedAttention, LaterTokensAndOtherDocumentsChangeNothing) {
  Inputs in = random_inputs(60, 4, 2, 8, 4);
  const Selected selected = select_blocks(selection_cases().front(), kDocuments, 2, 6, 4);
  const auto run = [&] { return selected_attention(in.q, in.k, in.v, selected.blocks, kScale); };
  const at::Tensor before = run();
  for (at::Tensor* x : {&in.k, &in.v}) x->narrow(0, 40, 20).mul_(3); // inside the last document
  const at::Tensor later = run();
  EXPECT_TRUE(at::equal(before.narrow(0, 0, 40), later.narrow(0, 0, 40)));
  EXPECT_FALSE(at::equal(before.narrow(0, 40, 20), later.narrow(0, 40, 20)));
  for (at::Tensor* x : {&in.k, &in.v}) x->narrow(0, 0, 24).mul_(3); // the first two documents
  const at::Tensor others = run();
  EXPECT_TRUE(at::equal(later.narrow(0, 24, 36), others.narrow(0, 24, 36)));
  EXPECT_FALSE(at::equal(later.narrow(0, 0, 24), others.narrow(0, 0, 24)));
}

TEST(SelectedAttention, Bf16IsComputedInFp32) {
  Inputs in = random_inputs(60, 4, 2, 16, 5);
  for (at::Tensor* x : {&in.q, &in.k, &in.v}) *x = x->to(at::kBFloat16);
  const Selected selected = select_blocks(selection_cases().front(), kDocuments, 2, 6, 4);
  const at::Tensor half = selected_attention(in.q, in.k, in.v, selected.blocks, kScale);
  EXPECT_EQ(half.scalar_type(), at::kBFloat16);
  for (at::Tensor* x : {&in.q, &in.k, &in.v}) *x = x->to(at::kDouble);
  // Only the result is rounded: half a unit in the last of 8 bits.
  EXPECT_LE(relative_rms(half.to(at::kDouble), by_loop(in, selected.blocks)), 1.0 / 256);
}

TEST(SelectedAttention, AutocastChangesNothing) {
  Inputs in = random_inputs(60, 4, 2, 16, 5);
  for (at::Tensor* x : {&in.q, &in.k, &in.v}) *x = x->to(at::kFloat);
  const Selected selected = select_blocks(selection_cases().front(), kDocuments, 2, 6, 4);
  const at::Tensor plain = selected_attention(in.q, in.k, in.v, selected.blocks, kScale);
  const AutocastGuard autocast(at::kCPU, at::kBFloat16);
  EXPECT_TRUE(at::equal(selected_attention(in.q, in.k, in.v, selected.blocks, kScale), plain));
}

TEST(SelectedAttention, RefusesWhatDoesNotFit) {
  const Inputs in = random_inputs(60, 4, 2, 8, 6);
  const Selected selected = select_blocks(selection_cases().front(), kDocuments, 2, 6, 4);
  const auto run = [&](const at::Tensor& q, const Selection& selection) {
    return selected_attention(q, in.k, in.v, selection, kScale);
  };
  EXPECT_THROW((void)run(in.q.narrow(1, 0, 3), selected.blocks), Failure);
  EXPECT_THROW((void)run(in.q.narrow(0, 0, 30), selected.blocks), Failure);
  Selection wrong = selected.blocks;
  wrong.chosen = wrong.chosen.to(at::kInt);
  EXPECT_THROW((void)run(in.q, wrong), Failure);
  wrong = selected.ranges;
  wrong.chosen = wrong.chosen.to(at::kLong);
  EXPECT_THROW((void)run(in.q, wrong), Failure);
  wrong = selected.blocks;
  wrong.document_start = wrong.document_start.narrow(0, 0, 59);
  EXPECT_THROW((void)run(in.q, wrong), Failure);
}

} // namespace selected_attention_test
} // namespace assay
