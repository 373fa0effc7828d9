// kernels/attention/table.cuh on the CPU: lengths and offsets of documents, and empty ones after
// them.
#include <gtest/gtest.h>

#include <vector>

#include "tests/kernels/emulated_warp.h"

#include "kernels/attention/table.cuh"

namespace assay::cudnn_plans {
namespace attention_table_emulated_test {

constexpr std::int64_t kUnwritten = -77;

// Of `given` documents in a table of `documents`.
void expect_table(const std::vector<std::int32_t>& cu, std::int64_t documents) {
  const auto given = static_cast<std::int64_t>(cu.size()) - 1;
  const auto room = static_cast<std::size_t>(documents);
  std::vector<std::int32_t> lengths(room + 1, kUnwritten); // and one behind the end
  std::vector<std::vector<std::int64_t>> offsets(kKinds,
                                                 std::vector<std::int64_t>(room + 2, kUnwritten));
  Table table;
  table.lengths = lengths.data(), table.documents = documents;
  for (int kind = 0; kind < kKinds; ++kind)
    table.offsets[kind] = offsets[static_cast<std::size_t>(kind)].data(),
    table.token[kind] = 8 * kind + 3;
  emu::launch(dim3(static_cast<unsigned>(documents / kTableThreads + 1)), kTableThreads, 0, [&] {
    fill_table(cu.data(), given, table);
  });
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i <= room; ++i) {
    const std::size_t own = std::min(i, cu.size() - 1);
    for (std::size_t kind = 0; kind < kKinds; ++kind)
      EXPECT_EQ(offsets[kind][i], cu[own] * table.token[kind]) << kind << " " << i;
    if (i == room) break;
    EXPECT_EQ(lengths[i], i + 1 < cu.size() ? cu[i + 1] - cu[i] : 0) << i;
    tokens += lengths[i];
  }
  EXPECT_EQ(tokens, cu.back());
  EXPECT_EQ(lengths[room], kUnwritten);
  for (const auto& of_kind : offsets) EXPECT_EQ(of_kind[room + 1], kUnwritten);
}

TEST(AttentionTable, DocumentsFillAPartOrTheWhole) {
  const std::vector<std::int32_t> few{0, 1, 3, 130, 131};
  for (const std::int64_t room : {4, 64, 127, 128, 256}) expect_table(few, room);
  std::vector<std::int32_t> many{0};
  while (many.size() <= 256)
    many.push_back(many.back() + 1 + static_cast<std::int32_t>(many.size() * 7 % 41));
  expect_table(many, 256);
}

TEST(AttentionTable, ARepeatedEndIsAnEmptyDocument) {
  expect_table({0, 5, 9, 9, 9}, 64);
}

// 2^31 elements are fewer than a batch may have.
TEST(AttentionTable, OffsetsHave64Bits) {
  const std::vector<std::int32_t> cu{0, 2'000'000'000, 2'100'000'000};
  std::int32_t lengths[2];
  std::int64_t offsets[3];
  Table table;
  table.lengths = lengths, table.documents = 2;
  for (int kind = 0; kind < kKinds; ++kind) table.offsets[kind] = offsets, table.token[kind] = 1152;
  emu::launch(dim3(1), kTableThreads, 0, [&] { fill_table(cu.data(), 2, table); });
  EXPECT_EQ(offsets[2], std::int64_t{2'100'000'000} * 1152);
}

} // namespace attention_table_emulated_test
} // namespace assay::cudnn_plans
