// Packing against a brute-force reference over random corpora, and the shuffle.
#include "model/data/packing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "model/data/seeded_random.h"
#include "tests/model/data/data_fixture.h"

namespace assay {
namespace packing_test {

using Documents = std::vector<std::vector<std::int32_t>>; // ids with the end of document

// Documents of 2 to 40 ids; every id of the whole corpus is different, so a mix-up cannot hide.
Documents random_documents(std::uint64_t seed, std::size_t count) {
  SeededRandom random(seed);
  Documents documents(count);
  std::int32_t id = 1;
  for (auto& document : documents) {
    for (std::uint64_t n = 2 + random.below(39); n > 0; --n) document.push_back(id++);
  }
  return documents;
}

// Hands the documents out epoch after epoch, from any start.
Packer::Source repeat(const Documents& documents, DataPosition start = {}) {
  auto at = std::make_shared<DataPosition>(start.epoch, start.document, 0);
  return [&documents, at] {
    auto document = std::make_shared<TokenizedDocument>();
    document->start = *at;
    document->encoding.ids = documents[at->document];
    for (const std::int32_t id : document->encoding.ids)
      document->encoding.bytes.push_back(static_cast<std::uint32_t>(id % 7));
    if (++at->document == documents.size()) *at = {at->epoch + 1, 0, 0};
    document->after = *at;
    return document;
  };
}

struct Position {
  std::int64_t token, target;
  std::size_t occurrence; // which document of the endless sequence
};

std::vector<Position> brute_force(const Documents& documents, std::size_t count) {
  std::vector<Position> stream;
  for (std::size_t occurrence = 0; stream.size() < count; ++occurrence) {
    const auto& ids = documents[occurrence % documents.size()];
    for (std::size_t i = 0; i + 1 < ids.size(); ++i)
      stream.push_back({ids[i], ids[i + 1], occurrence});
  }
  stream.resize(count);
  return stream;
}

TEST(Packing, EqualsBruteForceOverRandomCorpora) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SeededRandom random(seed * 977);
    const Documents documents = random_documents(seed, 1 + random.below(12));
    const auto rows = static_cast<std::int64_t>(1 + random.below(4));
    const auto seq_len = static_cast<std::int64_t>(1 + random.below(33));
    const auto per_batch = static_cast<std::size_t>(rows * seq_len);
    constexpr std::size_t kBatches = 6;
    const std::vector<Position> expected = brute_force(documents, per_batch * kBatches);
    Packer packer(rows, seq_len, repeat(documents));
    for (std::size_t b = 0; b < kBatches; ++b) {
      const PackedBatch batch = packer.next();
      ASSERT_EQ(batch.tokens.size(), per_batch);
      ASSERT_EQ(batch.targets.size(), per_batch);
      std::vector<std::int32_t> borders{0};
      std::int64_t bytes = 0;
      for (std::size_t i = 0; i < per_batch; ++i) {
        const Position& want = expected[b * per_batch + i];
        ASSERT_EQ(batch.tokens[i], want.token) << "seed " << seed;
        ASSERT_EQ(batch.targets[i], want.target) << "seed " << seed;
        bytes += want.target % 7;
        const bool last = i + 1 == per_batch || (i + 1) % static_cast<std::size_t>(seq_len) == 0 ||
                          expected[b * per_batch + i + 1].occurrence != want.occurrence;
        if (last) borders.push_back(static_cast<std::int32_t>(i + 1));
      }
      ASSERT_EQ(batch.cu_documents, borders) << "seed " << seed;
      ASSERT_EQ(batch.bytes, bytes);
    }
  }
}

// Without its padding, a padded stream is the same stream; a document begins a row, and goes on in
// the next one alone where it is longer.
TEST(Packing, PaddedRowsHoldOneDocumentAndTheSameTokens) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Documents documents = random_documents(seed, 5);
    constexpr std::int64_t kRows = 3, kLength = 17;
    Packer packer(kRows, kLength, repeat(documents), Packing::Padded);
    std::vector<std::int64_t> tokens, targets;
    std::int64_t bytes = 0;
    for (int b = 0; b < 8; ++b) {
      const PackedBatch batch = packer.next();
      ASSERT_EQ(batch.tokens.size(), kRows * kLength);
      std::int64_t padding = 0;
      bool padded = false;
      for (std::size_t i = 0; i < batch.tokens.size(); ++i) {
        const bool begins = i % kLength == 0;
        const bool border =
            std::ranges::count(batch.cu_documents, static_cast<std::int32_t>(i)) > 0;
        if (begins) padded = false;
        if (batch.targets[i] != kNoTarget) {
          EXPECT_FALSE(padded) << "behind the padding";
          EXPECT_EQ(border, begins);
          tokens.push_back(batch.tokens[i]);
          targets.push_back(batch.targets[i]);
          continue;
        }
        EXPECT_EQ(border, !padded) << "padding is one segment";
        EXPECT_EQ(batch.tokens[i], kPaddingToken);
        padded = true;
        ++padding;
      }
      EXPECT_EQ(batch.padding, padding);
      bytes += batch.bytes;
    }
    Packer end_to_end(1, static_cast<std::int64_t>(tokens.size()), repeat(documents));
    const PackedBatch all = end_to_end.next();
    EXPECT_EQ(tokens, all.tokens) << "seed " << seed;
    EXPECT_EQ(targets, all.targets) << "seed " << seed;
    EXPECT_EQ(bytes, all.bytes);
    EXPECT_EQ(packer.position(), end_to_end.position());
  }
}

// By the rule of packing.h alone: where each part of a document lies.
TEST(Packing, BestFitPutsWholeDocumentsIntoTheFullestRowThatTakesThem) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const Documents documents = random_documents(seed, 7);
    constexpr std::int64_t kRows = 3, kLength = 25;
    Packer packer(kRows, kLength, repeat(documents), Packing::BestFit);
    std::size_t document = 0, offset = 0;
    for (int b = 0; b < 8; ++b) {
      std::vector<std::vector<std::int64_t>> rows(kRows); // ids of the tokens
      std::int64_t placed = 0;
      for (;;) {
        const auto& ids = documents[document % documents.size()];
        const std::size_t part = std::min<std::size_t>(ids.size() - 1 - offset, kLength);
        std::vector<std::int64_t>* best = nullptr;
        for (auto& row : rows)
          if (row.size() + part <= kLength && (best == nullptr || row.size() > best->size()))
            best = &row;
        if (best == nullptr) break;
        for (std::size_t i = 0; i < part; ++i) best->push_back(ids[offset + i]);
        placed += static_cast<std::int64_t>(part);
        offset += part;
        if (offset == ids.size() - 1) ++document, offset = 0;
      }
      const PackedBatch batch = packer.next();
      ASSERT_EQ(batch.tokens.size(), kRows * kLength);
      EXPECT_EQ(batch.padding, kRows * kLength - placed);
      for (std::int64_t row = 0; row < kRows; ++row)
        for (std::int64_t i = 0; i < kLength; ++i) {
          const auto& want = rows[static_cast<std::size_t>(row)];
          const auto at = static_cast<std::size_t>(row * kLength + i);
          const bool pads = i >= std::ssize(want);
          ASSERT_EQ(batch.tokens[at], pads ? kPaddingToken : want[static_cast<std::size_t>(i)]);
          ASSERT_EQ(batch.targets[at] == kNoTarget, pads);
          if (pads) continue;
          EXPECT_EQ(batch.targets[at], batch.tokens[at] + 1) << "ids count up";
        }
      for (std::int64_t row = 0; row <= kRows; ++row)
        EXPECT_EQ(std::ranges::count(batch.cu_documents, static_cast<std::int32_t>(row * kLength)),
                  1);
      EXPECT_TRUE(std::ranges::is_sorted(batch.cu_documents, std::ranges::less_equal{}));
    }
  }
}

TEST(Packing, PositionResumesExactlyAfterEveryBatch) {
  const Documents documents = random_documents(4, 9);
  for (const Packing packing : {Packing::Packed, Packing::Padded, Packing::BestFit}) {
    Packer whole(2, 11, repeat(documents), packing);
    for (int b = 0; b < 40; ++b) {
      const DataPosition position = whole.position();
      Packer resumed(2, 11, repeat(documents, position), packing);
      resumed.seek(position);
      const PackedBatch expected = whole.next();
      const PackedBatch batch = resumed.next();
      ASSERT_EQ(batch.tokens, expected.tokens) << b;
      ASSERT_EQ(batch.targets, expected.targets) << b;
      ASSERT_EQ(batch.cu_documents, expected.cu_documents) << b;
      ASSERT_EQ(resumed.position(), whole.position()) << b;
    }
  }
}

TEST(Packing, PositionAtADocumentsEndIsTheNextDocument) {
  const Documents documents = {{1, 2, 3, 4}, {5, 6, 7}};
  Packer packer(1, 3, repeat(documents));
  packer.next();
  EXPECT_EQ(packer.position(), (DataPosition{0, 1, 0}));
  packer.next();
  EXPECT_EQ(packer.position(), (DataPosition{1, 0, 1}));
}

TEST(Packing, PositionThatDoesNotExistIsRefused) {
  const Documents documents = random_documents(4, 3);
  const DataPosition beyond{0, 1, documents[1].size() - 1};
  Packer packer(1, 8, repeat(documents, beyond));
  packer.seek(beyond);
  expect_mentions(bad_input_message([&] { packer.next(); }),
                  {"epoch 0, document 1", "does not exist"});
  expect_mentions(bad_input_message([&] { Packer(0, 8, repeat(documents)); }), {"batch_rows (0)"});
}

TEST(Shuffle, IsASeededPermutationPerEpoch) {
  std::vector<std::uint64_t> documents(500);
  for (std::size_t i = 0; i < documents.size(); ++i) documents[i] = 3 * i;
  const auto first = shuffled(documents, 1, 0);
  EXPECT_EQ(first, shuffled(documents, 1, 0));
  EXPECT_NE(first, shuffled(documents, 1, 1));
  EXPECT_NE(first, shuffled(documents, 2, 0));
  EXPECT_NE(first, documents);
  auto sorted = first;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(sorted, documents);
}

// Every one of the 6 orders of 3 documents comes up about as often as the others: chi-squared with
// 5 degrees of freedom is below 20.5 with probability .999.
TEST(Shuffle, IsUniform) {
  std::map<std::vector<std::uint64_t>, int> seen;
  constexpr int kDraws = 6000;
  for (std::uint64_t epoch = 0; epoch < kDraws; ++epoch) ++seen[shuffled({0, 1, 2}, 9, epoch)];
  ASSERT_EQ(seen.size(), 6U);
  double chi_squared = 0;
  for (const auto& [order, count] : seen)
    chi_squared += (count - 1000.0) * (count - 1000.0) / 1000.0;
  EXPECT_LT(chi_squared, 20.5);
}

// The stream of a seed is part of what a checkpoint promises: it may not change between builds.
TEST(Shuffle, OrderIsPinned) {
  EXPECT_EQ(shuffled({0, 1, 2, 3, 4, 5, 6, 7}, 1, 0),
            (std::vector<std::uint64_t>{4, 2, 0, 5, 6, 1, 7, 3}));
}

} // namespace packing_test
} // namespace assay
