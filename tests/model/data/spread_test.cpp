// Places of an evaluation: evenly over the text, and a sample from which the mean of all of it can
// be estimated.
#include "model/data/spread.h"

#include <gtest/gtest.h>

#include <optional>

#include "core/statistics/statistics.h"
#include "model/data/seeded_random.h"
#include "tests/model/data/data_fixture.h"

namespace assay {
namespace spread_test {

class SpreadTest : public DataTest {
protected:
  // Documents of one letter each, between 100 and 3,000 long.
  SpreadTest() {
    SeededRandom random(3);
    std::string lines;
    for (int i = 0; i < 400; ++i) {
      const std::string text(100 + random.below(2900), static_cast<char>('a' + random.below(26)));
      lines += "{\"text\": \"" + text + "\"}\n";
    }
    config_.data = write("a.jsonl", lines);
    config_.seq_len = 16;
    config_.batch_rows = 1;
  }

  std::vector<DataPosition> places(std::int64_t batches) const {
    return spread_positions(open_data(config_), config_, Split::Train, batches);
  }
  // The figure of a batch that stands for its loss.
  static double letter(const Batch& batch) {
    return batch.tokens.to(at::kDouble).mean().item<double>();
  }
  // Of the next `batches`, or of those at `places`.
  std::vector<double> letters(std::int64_t batches,
                              const std::vector<DataPosition>& places = {}) const {
    DataStream stream(open_data(config_), config_, Split::Train);
    std::vector<double> values;
    for (std::int64_t i = 0; i < batches; ++i) {
      if (!places.empty()) stream.seek(places.at(static_cast<std::size_t>(i)));
      values.push_back(letter(stream.next()));
    }
    return values;
  }

  TrainConfig config_;
};

TEST_F(SpreadTest, PlacesAreEvenlyApart) {
  const std::vector<DataPosition> found = places(40);
  ASSERT_EQ(found.size(), 40U);
  const std::uint64_t documents = open_data(config_).corpus->documents(Split::Train).size();
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].epoch, 0U);
    const double share = (static_cast<double>(i) + 0.5) / 40;
    EXPECT_NEAR(
        static_cast<double>(found[i].document) / static_cast<double>(documents), share, 0.06)
        << i;
  }
  EXPECT_EQ(places(40), found);
}

TEST_F(SpreadTest, BatchesThatWouldOverlapAreNotSpread) {
  EXPECT_TRUE(places(1'000'000).empty());
  EXPECT_FALSE(places(1000).empty());
}

// Of 60 orders of the documents, those in which the interval of 16 batches contains the mean of
// all.
TEST_F(SpreadTest, TheIntervalOfAFewBatchesContainsTheMeanOfAll) {
  double all = 0;
  const auto everything = letters(20'000);
  for (const double value : everything) all += value / static_cast<double>(everything.size());
  int spread = 0, first = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    config_.seed = seed;
    spread += t_interval(letters(16, places(16)), 0.05)->contains(all);
    first += t_interval(letters(16), 0.05)->contains(all);
  }
  EXPECT_GE(spread, 52);
  EXPECT_LE(first, 30) << "the first batches are a few documents, which is why none begins there";
}

} // namespace spread_test
} // namespace assay
