// Layouts of a batch against their definitions, token by token.
#include <gtest/gtest.h>

#include <cmath>

#include "model/layout/chunk_layout.h"
#include "model/layout/positions.h"
#include "model/layout/segments.h"
#include "tests/model/model_fixture.h"

namespace assay {
namespace layout_test {

// One short, one of whole chunks, one of one token, the longest in the middle.
const std::vector<std::int32_t> kEnds{0, 5, 37, 38, 91, 99};
constexpr std::int64_t kChunk = 16, kHeads = 3;

ChunkLayout layout_of(const std::vector<std::int32_t>& ends) {
  TrainConfig config = testing_model::small_config();
  config.heads = kHeads;
  config.chunk_size = kChunk;
  return make_chunk_layout(segments_of(ends, at::kCPU), config);
}

std::vector<std::int64_t> numbers(const at::Tensor& x) {
  const at::Tensor flat = x.to(at::kLong).flatten().contiguous();
  return {flat.const_data_ptr<std::int64_t>(), flat.const_data_ptr<std::int64_t>() + flat.numel()};
}

// Segment of every token.
std::vector<std::size_t> segments_of_tokens(const std::vector<std::int32_t>& ends) {
  std::vector<std::size_t> segment;
  for (std::size_t i = 1; i < ends.size(); ++i)
    for (std::int32_t t = ends[i - 1]; t < ends[i]; ++t) segment.push_back(i - 1);
  return segment;
}

TEST(ChunkLayout, ASlotHoldsOneRowAndNoRowIsLost) {
  const ChunkLayout layout = layout_of(kEnds);
  const std::vector<std::int64_t> gather = numbers(layout.gather),
                                  scatter = numbers(layout.scatter), dead = numbers(layout.dead);
  ASSERT_EQ(gather.size(), static_cast<std::size_t>(layout.chunks * kHeads * kChunk));
  ASSERT_EQ(dead.size(), gather.size());
  ASSERT_EQ(scatter.size(), static_cast<std::size_t>(layout.tokens * kHeads));
  std::vector<bool> held(gather.size());
  for (std::size_t row = 0; row < scatter.size(); ++row) {
    const auto slot = static_cast<std::size_t>(scatter[row]);
    EXPECT_EQ(gather.at(slot), static_cast<std::int64_t>(row));
    held.at(slot) = true;
  }
  for (std::size_t slot = 0; slot < gather.size(); ++slot) EXPECT_EQ(dead[slot] == 0, held[slot]);
}

TEST(ChunkLayout, AChunkIsOfOneSegmentAndItsTokensFollowEachOther) {
  const ChunkLayout layout = layout_of(kEnds);
  const std::vector<std::int64_t> gather = numbers(layout.gather), dead = numbers(layout.dead);
  const std::vector<std::size_t> segment = segments_of_tokens(kEnds);
  for (std::int64_t n = 0; n < layout.chunks; ++n)
    for (std::int64_t h = 0; h < kHeads; ++h) {
      const auto first = static_cast<std::size_t>((n * kHeads + h) * kChunk);
      for (std::size_t c = 0; c < kChunk; ++c) {
        EXPECT_EQ(gather[first + c] % kHeads, h);
        const std::int64_t token = gather[first + c] / kHeads, begin = gather[first] / kHeads;
        EXPECT_EQ(segment[static_cast<std::size_t>(token)],
                  segment[static_cast<std::size_t>(begin)]);
        EXPECT_EQ(token, dead[first + c] != 0 ? begin : begin + static_cast<std::int64_t>(c));
      }
    }
}

// The n-th chunks of all segments that have so many, the longest segment first.
TEST(ChunkLayout, ScanStepsAreSlicesThatContinueAPrefixOfTheStepBefore) {
  const ChunkLayout layout = layout_of(kEnds);
  EXPECT_EQ(layout.step_chunks, (std::vector<std::int64_t>{5, 2, 1, 1}));
  const std::vector<std::int64_t> gather = numbers(layout.gather);
  const auto begin_of = [&](std::int64_t n) {
    return gather[static_cast<std::size_t>(n * kHeads * kChunk)] / kHeads;
  };
  std::vector<std::int64_t> begins;
  for (std::int64_t n = 0; n < layout.chunks; ++n) begins.push_back(begin_of(n));
  EXPECT_EQ(begins, (std::vector<std::int64_t>{38, 5, 91, 0, 37, 54, 21, 70, 86}));
  EXPECT_EQ(numbers(layout.spans),
            (std::vector<std::int64_t>{
                0, 5, 5, 16, 21, 16, 37, 1, 38, 16, 54, 16, 70, 16, 86, 5, 91, 8}));
  EXPECT_EQ(numbers(layout.segment_chunks), (std::vector<std::int64_t>{0, 1, 3, 4, 8, 9}));
}

TEST(ChunkLayout, WholeChunksHaveNoDeadSlot) {
  EXPECT_FALSE(layout_of({0, 32, 48}).dead.defined());
}

TEST(Positions, BeginAgainInEachSegment) {
  const Segments segments = segments_of(kEnds, at::kCPU);
  std::vector<std::int64_t> expected;
  for (std::size_t i = 1; i < kEnds.size(); ++i)
    for (std::int64_t t = 0; t < kEnds[i] - kEnds[i - 1]; ++t) expected.push_back(t);
  EXPECT_EQ(numbers(segment_positions(segments)), expected);
}

// Also behind the first table's end.
TEST(Positions, AnglesAreThoseOfThePlace) {
  for (const std::vector<std::int32_t>& ends : {kEnds, std::vector<std::int32_t>{0, 3, 3000}}) {
    const Rotary rotary = make_rotary(segments_of(ends, at::kCPU), 8);
    const auto last = static_cast<std::int64_t>(ends.back()) - 1;
    ASSERT_EQ(rotary.cos.sizes(), (std::vector<std::int64_t>{last + 1, 1, 4}));
    const double place = static_cast<double>(ends.back() - ends[ends.size() - 2] - 1);
    for (std::int64_t i = 0; i < 4; ++i) {
      const double angle = place * std::pow(10000.0, -static_cast<double>(i) / 4);
      EXPECT_NEAR(rotary.cos[last][0][i].item<float>(), std::cos(angle), 1e-6);
      EXPECT_NEAR(rotary.sin[last][0][i].item<float>(), std::sin(angle), 1e-6);
    }
    EXPECT_TRUE(at::equal(rotary.turn, at::complex(rotary.cos, rotary.sin)));
  }
}

} // namespace layout_test
} // namespace assay
