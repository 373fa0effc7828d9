// The three conversions from block indices to ranges against a bitmap of the selected tokens.
#include <gtest/gtest.h>

#include "core/result.h"
#include "model/nsa/nsa_ranges.h"
#include "tests/model/nsa/selection_fixture.h"

namespace assay {
namespace nsa_ranges_test {

using testing_model::make_blocks;
using testing_model::plain_positions;
using testing_model::positions_of;
using testing_model::selection_cases;
using testing_model::SelectionCase;

// Marks every selected token and reads the runs off.
at::Tensor
ranges_by_bitmap(const at::Tensor& blocks, std::int64_t block_size, const at::Tensor& positions) {
  const std::int64_t groups = blocks.size(2), slots = blocks.size(3);
  const at::Tensor out = at::zeros({blocks.size(0), blocks.size(1), groups, slots, 2}, at::kInt);
  const auto* ids = blocks.const_data_ptr<std::int64_t>();
  for (std::int64_t unit = 0; unit < blocks.numel() / slots; ++unit) {
    const std::int64_t t = positions.const_data_ptr<std::int32_t>()[unit / groups];
    std::vector<bool> selected(static_cast<std::size_t>(t + 2), false);
    for (std::int64_t token = 0; token <= t; ++token)
      for (std::int64_t i = 0; i < slots; ++i)
        if (ids[unit * slots + i] == token / block_size)
          selected[static_cast<std::size_t>(token)] = true;
    auto* to = out.mutable_data_ptr<std::int32_t>() + unit * slots * 2;
    bool before = false;
    for (std::size_t token = 0; token < selected.size(); ++token) {
      if (selected[token] != before) *to++ = static_cast<std::int32_t>(token);
      before = selected[token];
    }
  }
  return out;
}

class NsaRanges : public testing::TestWithParam<SelectionCase> {};

TEST_P(NsaRanges, AllFormsEqualTheBitmap) {
  for (const std::int64_t block_size : {1, 3, 16})
    for (const std::int64_t slots : {1, 2, 5, 32}) {
      const at::Tensor positions = plain_positions(2, 50);
      const at::Tensor blocks = make_blocks(GetParam(), positions, 2, slots, block_size);
      const at::Tensor expected = ranges_by_bitmap(blocks, block_size, positions);
      EXPECT_TRUE(at::equal(ranges_looped(blocks, block_size), expected)) << slots;
      EXPECT_TRUE(at::equal(ranges_tensor(blocks, block_size), expected)) << slots;
      EXPECT_TRUE(at::equal(ranges_kernel(blocks, block_size), expected)) << slots;
    }
}

TEST_P(NsaRanges, PositionsCountFromTheDocumentsStart) {
  const at::Tensor positions = positions_of({0, 1, 2, 35, 36, 80});
  const at::Tensor blocks = make_blocks(GetParam(), positions, 3, 8, 4);
  const at::Tensor expected = ranges_by_bitmap(blocks, 4, positions);
  EXPECT_TRUE(at::equal(ranges_looped(blocks, 4, positions), expected));
  EXPECT_TRUE(at::equal(ranges_tensor(blocks, 4, positions), expected));
  EXPECT_TRUE(at::equal(ranges_kernel(blocks, 4, positions), expected));
}

TEST_P(NsaRanges, StridedIndicesAreTheSame) {
  const at::Tensor positions = plain_positions(1, 40);
  const at::Tensor wide = make_blocks(GetParam(), positions, 2, 12, 4);
  const at::Tensor blocks = wide.slice(3, 0, 12, 2);
  const at::Tensor expected = ranges_by_bitmap(blocks.contiguous(), 4, positions);
  EXPECT_TRUE(at::equal(ranges_looped(blocks, 4), expected));
  EXPECT_TRUE(at::equal(ranges_tensor(blocks, 4), expected));
  EXPECT_TRUE(at::equal(ranges_kernel(blocks, 4), expected));
}

INSTANTIATE_TEST_SUITE_P(Cases,
                         NsaRanges,
                         testing::ValuesIn(selection_cases()),
                         [](const auto& row) { return row.param.name; });

TEST(NsaRangesForms, OneQueryByHand) {
  // t = 200, blocks of 64: 3 ends at t + 1; 0 and 1 touch; 4 begins after t.
  const at::Tensor blocks = at::tensor({3, 1, -1, 0, 4, 1}, at::kLong).view({1, 1, 1, 6});
  const at::Tensor position = at::tensor({200}, at::kInt).view({1, 1});
  const at::Tensor expected =
      at::tensor({0, 128, 192, 201, 0, 0, 0, 0, 0, 0, 0, 0}, at::kInt).view({1, 1, 1, 6, 2});
  for (auto* form : {&ranges_looped, &ranges_tensor, &ranges_kernel})
    EXPECT_TRUE(at::equal((*form)(blocks, 64, position), expected));
}

TEST(NsaRangesForms, TakeEmptyShapes) {
  for (auto* form : {&ranges_looped, &ranges_tensor, &ranges_kernel}) {
    EXPECT_EQ((*form)(at::empty({2, 0, 3, 4}, at::kLong), 64, {}).sizes(),
              (at::IntArrayRef{2, 0, 3, 4, 2}));
    EXPECT_EQ((*form)(at::empty({2, 3, 1, 0}, at::kLong), 64, {}).sizes(),
              (at::IntArrayRef{2, 3, 1, 0, 2}));
  }
}

TEST(NsaRangesForms, RefuseOtherShapesAndTypes) {
  const at::Tensor good = at::zeros({1, 2, 1, 4}, at::kLong);
  for (auto* form : {&ranges_looped, &ranges_tensor, &ranges_kernel}) {
    EXPECT_THROW((void)(*form)(good.to(at::kInt), 64, {}), Failure);
    EXPECT_THROW((void)(*form)(good.squeeze(0), 64, {}), Failure);
    EXPECT_THROW((void)(*form)(good, 0, {}), Failure);
    EXPECT_THROW((void)(*form)(good, 64, at::zeros({1, 3}, at::kInt)), Failure);
  }
}

} // namespace nsa_ranges_test
} // namespace assay
