// Range conversion and selected attention on a CUDA device against their CPU forms. Small shapes:
// they also run under compute-sanitizer.
#include <gtest/gtest.h>

#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAFunctions.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "model/gates/gates.h"
#include "model/layout/segments.h"
#include "model/nsa/nsa.h"
#include "model/nsa/nsa_ranges.h"
#include "model/nsa/nsa_strided.h"
#include "model/nsa/selected_attention.h"
#include "tests/model/nsa/selection_fixture.h"

namespace assay {
namespace nsa_gpu_test {

using testing_model::document_starts;
using testing_model::make_blocks;
using testing_model::plain_positions;
using testing_model::positions_of;
using testing_model::selection_cases;
using testing_model::SelectionCase;

// While it lives, an operation that waits for the device throws.
class NoSynchronization {
public:
  NoSynchronization() : before_(c10::cuda::warning_state().get_sync_debug_mode()) {
    c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_ERROR);
  }
  ~NoSynchronization() { c10::cuda::warning_state().set_sync_debug_mode(before_); }
  NoSynchronization(const NoSynchronization&) = delete;
  NoSynchronization& operator=(const NoSynchronization&) = delete;

private:
  c10::cuda::SyncDebugMode before_;
};

class NsaGpu : public testing::Test {
protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  }
};

class NsaGpuCases : public testing::TestWithParam<SelectionCase> {
protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  }
};

TEST_P(NsaGpuCases, RangesEqualTheHostLoop) {
  for (const std::int64_t slots : {1, 2, 16, 31, 32}) {
    const at::Tensor blocks = make_blocks(GetParam(), plain_positions(2, 70), 3, slots, 4);
    const at::Tensor expected = ranges_looped(blocks, 4), on_gpu = blocks.cuda();
    EXPECT_TRUE(at::equal(ranges_kernel(on_gpu, 4).cpu(), expected)) << slots;
    EXPECT_TRUE(at::equal(ranges_tensor(on_gpu, 4).cpu(), expected)) << slots;
  }
  const at::Tensor positions = positions_of({0, 1, 2, 35, 36, 80});
  const at::Tensor blocks = make_blocks(GetParam(), positions, 2, 7, 4);
  const at::Tensor expected = ranges_looped(blocks, 4, positions);
  for (auto* form : {&ranges_looped, &ranges_tensor, &ranges_kernel})
    EXPECT_TRUE(at::equal((*form)(blocks.cuda(), 4, positions.cuda()).cpu(), expected));
}

struct Shape {
  std::int64_t heads, groups, width, slots, block_size;
};

const std::vector<std::int32_t> kDocuments{0, 1, 90, 107, 300};

struct Problem {
  at::Tensor q, k, v, weights;
  Selection blocks, ranges;
};

Problem make_problem(const SelectionCase& how, const Shape& shape, at::ScalarType type) {
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(11);
  const std::int64_t tokens = kDocuments.back();
  const auto normal = [&](std::int64_t count) {
    return at::empty({tokens, count, shape.width}, at::kFloat).normal_(0, 1, generator).to(type);
  };
  const at::Tensor positions = positions_of(kDocuments);
  const at::Tensor blocks =
      make_blocks(how, positions, shape.groups, shape.slots, shape.block_size);
  const at::Tensor starts = document_starts(kDocuments);
  Problem problem;
  problem.q = normal(shape.heads);
  problem.k = normal(shape.groups);
  problem.v = normal(shape.groups);
  problem.weights = normal(shape.heads);
  problem.blocks = {blocks.squeeze(0), starts, shape.block_size};
  problem.ranges = {
      ranges_looped(blocks, shape.block_size, positions).squeeze(0), starts, shape.block_size};
  return problem;
}

// Output and the gradients of q, k and v.
std::vector<at::Tensor>
run(const Problem& problem, const Selection& selection, at::Device device, at::ScalarType type) {
  const auto leaf = [&](const at::Tensor& x) {
    return x.to(at::TensorOptions().device(device).dtype(type)).detach().requires_grad_();
  };
  const at::Tensor q = leaf(problem.q), k = leaf(problem.k), v = leaf(problem.v);
  const Selection there{
      selection.chosen.to(device), selection.document_start.to(device), selection.block_size};
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(2)));
  const at::Tensor out = selected_attention(q, k, v, there, scale);
  out.backward(problem.weights.to(at::TensorOptions().device(device).dtype(type)));
  return {out.detach(), q.grad(), k.grad(), v.grad()};
}

void expect_equal(const SelectionCase& how, const Shape& shape, at::ScalarType type, double bound) {
  const Problem problem = make_problem(how, shape, type);
  // From the same rounded inputs; fp32 is compared with fp32, half precision with fp32 as well.
  const auto expected = run(problem, problem.blocks, at::kCPU, at::kFloat);
  const char* names[] = {"out", "grad q", "grad k", "grad v"};
  for (const Selection* form : {&problem.blocks, &problem.ranges}) {
    const auto actual = run(problem, *form, at::kCUDA, type);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const at::Tensor x = actual[i].cpu().to(at::kFloat);
      ASSERT_TRUE(x.isfinite().all().item<bool>()) << names[i];
      if (expected[i].abs().max().item<double>() == 0)
        EXPECT_EQ(x.abs().max().item<double>(), 0) << names[i];
      else
        EXPECT_LE(relative_rms(x, expected[i]), bound)
            << names[i] << " heads " << shape.heads << " groups " << shape.groups << " width "
            << shape.width << " slots " << shape.slots << " block " << shape.block_size
            << (form == &problem.blocks ? " blocks" : " ranges");
    }
  }
}

TEST_P(NsaGpuCases, SelectedAttentionEqualsTheTensorForm) {
  const Shape shape{12, 2, 64, 5, 16};
  expect_equal(GetParam(), shape, at::kFloat, 1e-5);
  expect_equal(GetParam(), shape, at::kBFloat16, 1e-2);
  expect_equal(GetParam(), shape, at::kHalf, 2e-3);
}

INSTANTIATE_TEST_SUITE_P(Cases,
                         NsaGpuCases,
                         testing::ValuesIn(selection_cases()),
                         [](const auto& row) { return row.param.name; });

TEST_F(NsaGpu, SelectedAttentionOfEveryShapeEqualsTheTensorForm) {
  const SelectionCase how = selection_cases()[1];
  for (const Shape& shape : std::vector<Shape>{{16, 1, 64, 16, 64},
                                               {16, 1, 128, 4, 64},
                                               {1, 1, 64, 32, 16},
                                               {18, 2, 64, 3, 32},
                                               {32, 2, 128, 2, 128},
                                               {3, 3, 128, 1, 16}}) {
    expect_equal(how, shape, at::kFloat, 1e-5);
    expect_equal(how, shape, at::kBFloat16, 1e-2);
    expect_equal(how, shape, at::kHalf, 2e-3);
  }
}

// More queries of one key block than an item holds: every query selects block 0.
TEST_F(NsaGpu, SeveralItemsOfOneKeyBlockAddUp) {
  const SelectionCase first{"first",
                            [](std::int64_t slot, std::int64_t, std::uint64_t) { return slot; }};
  expect_equal(first, {16, 1, 64, 2, 64}, at::kBFloat16, 1e-2);
}

TEST_F(NsaGpu, UnalignedAndStridedInputsAreTaken) {
  Problem problem = make_problem(selection_cases().front(), {4, 2, 64, 4, 16}, at::kBFloat16);
  const auto expected = run(problem, problem.blocks, at::kCUDA, at::kBFloat16);
  const at::Tensor wide = at::zeros({300, 4, 65}, problem.q.options());
  wide.narrow(2, 1, 64).copy_(problem.q);
  const at::Tensor flat = at::zeros({problem.k.numel() + 1}, problem.k.options()).cuda();
  flat.narrow(0, 1, problem.k.numel()).copy_(problem.k.flatten());
  const Selection there{problem.blocks.chosen.cuda(), problem.blocks.document_start.cuda(), 16};
  const at::Tensor out = selected_attention(wide.cuda().narrow(2, 1, 64),
                                            flat.narrow(0, 1, problem.k.numel()).view_as(problem.k),
                                            problem.v.cuda(),
                                            there,
                                            1.0 / 8);
  EXPECT_TRUE(at::equal(out, expected[0]));
}

TEST_F(NsaGpu, RefusesWhatTheKernelsCannotDo) {
  const auto refuses = [](const Shape& shape) {
    const Problem problem = make_problem(selection_cases().front(), shape, at::kBFloat16);
    EXPECT_THROW((void)run(problem, problem.blocks, at::kCUDA, at::kBFloat16), Failure);
  };
  refuses({4, 1, 32, 4, 16});
  refuses({17, 1, 64, 4, 16});
  refuses({4, 1, 64, 33, 16});
  refuses({4, 1, 64, 4, 8});
  EXPECT_THROW((void)ranges_kernel(at::zeros({1, 4, 1, 33}, at::kLong).cuda(), 16), Failure);
}

TEST_F(NsaGpu, OnlyTheHostLoopSynchronizes) {
  const Problem problem =
      make_problem(selection_cases().front(), {16, 1, 64, 4, 16}, at::kBFloat16);
  const at::Tensor blocks = problem.blocks.chosen.unsqueeze(0).cuda(),
                   positions = positions_of(kDocuments).cuda();
  const auto leaf = [](const at::Tensor& x) { return x.cuda().requires_grad_(); };
  const at::Tensor q = leaf(problem.q), k = leaf(problem.k), v = leaf(problem.v);
  const at::Tensor weights = problem.weights.cuda(), starts = problem.blocks.document_start.cuda();
  c10::cuda::device_synchronize();
  const NoSynchronization guard;
  EXPECT_THROW((void)ranges_looped(blocks, 16, positions), c10::Error);
  for (auto* form : {&ranges_tensor, &ranges_kernel}) {
    const at::Tensor ranges = (*form)(blocks, 16, positions);
    selected_attention(q, k, v, {ranges.squeeze(0), starts, 16}, 0.125).backward(weights);
  }
  selected_attention(q, k, v, {blocks.squeeze(0), starts, 16}, 0.125).backward(weights);
}

// The compressed branch as strided flash attention, and the choice of blocks by its kernel, against
// the tensor operations in fp32 on the same 16-bit numbers. A choice may differ where scores are
// equal but for rounding: what it gathers must not.
TEST_F(NsaGpu, TheCompressedBranchInSixteenBitsEqualsFp32) {
  for (const NsaShape& shape :
       {NsaShape{8, 4, 16, 5, 40}, NsaShape{32, 16, 64, 4, 40}, NsaShape{16, 16, 16, 7, 40}}) {
    const std::vector<std::int32_t> cu{0, 1, 18, 82, 147, 900, 901, 933};
    const auto layout =
        std::make_shared<const NsaLayout>(make_nsa_layout(segments_of(cu, at::kCUDA), shape, 256));
    const auto options = at::TensorOptions().device(at::kCUDA).dtype(at::kBFloat16);
    at::manual_seed(5);
    const at::Tensor q = at::randn({933, 4, 64}, options),
                     weights = at::randn({933, 4, 64}, options),
                     k = nsa_compress(at::randn({933, 2, 64}, options), layout),
                     v = nsa_compress(at::randn({933, 2, 64}, options), layout);
    ASSERT_TRUE(strided_fits(q, v, *layout));
    const auto run = [&](auto&& attention, at::ScalarType type) {
      std::vector<at::Tensor> in;
      for (const at::Tensor& x : {q, k, v})
        in.push_back(x.to(type).detach().clone().requires_grad_());
      const at::Tensor out = attention(in[0], in[1], in[2], layout, 0.125);
      std::vector<at::Tensor> all = torch::autograd::grad({out}, in, {weights.to(type)});
      all.insert(all.begin(), out.detach());
      return all;
    };
    const auto expected = run(nsa_compressed_attention, at::kFloat),
               actual = run([](const auto&... in) { return strided_attention(in...).out; },
                            at::kBFloat16);
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_LE(relative_rms(actual[i], expected[i]), 1e-2) << i;

    const at::Tensor lse = strided_attention(q, k, v, layout, 0.125).lse,
                     blocks = strided_select(q, k, lse, *layout, 0.125),
                     reference =
                         nsa_select_blocks(q.to(at::kFloat), k.to(at::kFloat), *layout, 0.125);
    EXPECT_TRUE(at::equal(blocks.ge(0), reference.ge(0))); // as many, in front
    const at::Tensor later = blocks.narrow(2, 1, shape.select_count - 1),
                     earlier = blocks.narrow(2, 0, shape.select_count - 1);
    EXPECT_TRUE(later.lt(0).logical_or(later.gt(earlier)).all().item<bool>()); // ascending
    for (std::size_t i = 0; i < layout->selection_chunks.size(); ++i) {
      const QueryChunk& chunk = layout->selection_chunks[i];
      const at::Tensor scores = nsa_block_scores(
          q.to(at::kFloat), k.to(at::kFloat), *layout, i, 0.125); // [G, queries, blocks]
      const auto gathered = [&](const at::Tensor& choice) {
        const at::Tensor mine = choice.narrow(0, chunk.begin, chunk.queries()).transpose(0, 1);
        const at::Tensor first =
            layout->selection.first.narrow(0, chunk.begin, chunk.queries()).view({1, -1, 1});
        return scores.gather(2, (mine + first - chunk.key_begin).clamp_min(0))
            .masked_fill(mine.lt(0), 0.0)
            .sum(2);
      };
      EXPECT_LE((gathered(reference) - gathered(blocks)).max().item<double>(), 1e-4);
    }
    const at::Tensor same = blocks.eq(reference).all(-1).to(at::kDouble).mean();
    EXPECT_GE(same.item<double>(), 0.99);
  }
}

// The window branch: flash attention in 16 bits, plain tensor operations in fp32.
TEST_F(NsaGpu, TheWindowInSixteenBitsEqualsFp32) {
  const std::vector<std::int32_t> cu{0, 1, 18, 82, 147, 400};
  const NsaShape shape{8, 4, 16, 5, 40};
  const auto layout = std::make_shared<const NsaLayout>(
      make_nsa_layout(segments_of(cu, at::kCUDA), shape, kNsaQueryChunkCuda));
  const auto options = at::TensorOptions().device(at::kCUDA).dtype(at::kBFloat16);
  at::manual_seed(5);
  const at::Tensor q = at::randn({400, 4, 64}, options), k = at::randn({400, 2, 64}, options),
                   v = at::randn({400, 2, 64}, options), weights = at::randn({400, 4, 64}, options);
  const auto run = [&](at::ScalarType type) {
    std::vector<at::Tensor> in;
    for (const at::Tensor& x : {q, k, v})
      in.push_back(x.to(type).detach().clone().requires_grad_());
    const at::Tensor out = nsa_window_attention(in[0], in[1], in[2], layout, 0.125);
    std::vector<at::Tensor> all = torch::autograd::grad({out}, in, {weights.to(type)});
    all.insert(all.begin(), out.detach());
    return all;
  };
  const auto expected = run(at::kFloat), actual = run(at::kBFloat16);
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_LE(relative_rms(actual[i], expected[i]), 1e-2) << i;
}

} // namespace nsa_gpu_test
} // namespace assay
