// Rows of the loader (unit pipeline_step): equal batches, the counter that shows a level, and what
// a slow document costs.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "model/config/optimization.h"
#include "model/data/loader.h"
#include "model/gates/gates.h"
#include "tests/model/data/data_fixture.h"
#include "tests/model/event_counts.h"

namespace assay {
namespace loader_rows_test {

class LoaderRows : public DataTest {
protected:
  LoaderRows() {
    std::string lines;
    for (int i = 0; i < 300; ++i)
      lines += "{\"text\": \"" + std::string(static_cast<std::size_t>(1 + i % 50), 'a') + "\"}\n";
    write("a.jsonl", lines);
    config_.data = path("a.jsonl");
    config_.seq_len = 64;
    config_.batch_rows = 2;
  }

  static std::vector<Batch> batches_of(const TrainConfig& config, int count) {
    DataStream stream(open_data(config), config, Split::Train);
    std::vector<Batch> batches;
    for (int i = 0; i < count; ++i) batches.push_back(stream.next());
    return batches;
  }
  TrainConfig with(const Level& level) const {
    TrainConfig config = config_;
    level.apply(config);
    return config;
  }
  // Without `batch_copy`, which a GPU alone has (LayoutGpu).
  static std::vector<const Optimization*> rows() {
    std::vector<const Optimization*> found;
    for (const Optimization& row : optimizations().all())
      if (row.unit == Unit::PipelineStep && row.name != "batch_copy") found.push_back(&row);
    return found;
  }

  TrainConfig config_;
};

TEST_F(LoaderRows, LevelsThatPromiseItGiveEqualBatches) {
  ASSERT_EQ(rows().size(), 5u);
  for (const Optimization* row : rows()) {
    if (row->equivalence != Equivalence::Bitwise) continue;
    const std::vector<Batch> expected = batches_of(with(row->levels.front()), 30);
    for (const Level& level : row->levels) {
      const GateResult gate = batches_gate(expected, batches_of(with(level), 30));
      EXPECT_TRUE(gate.passed) << row->name << "/" << level.name << ": " << gate.detail;
    }
  }
}

TEST_F(LoaderRows, AnotherOrderATokenOrABorderIsSeen) {
  const std::vector<Batch> expected = batches_of(config_, 4);
  TrainConfig other = config_;
  other.seed = 7;
  EXPECT_FALSE(batches_gate(expected, batches_of(other, 4)).passed);
  std::vector<Batch> token = batches_of(config_, 4), border = batches_of(config_, 4);
  token[2].tokens[1][5] += 1;
  border[3].documents.cu_host[1] += 1;
  EXPECT_EQ(batches_gate(expected, token).value, 1);
  EXPECT_EQ(batches_gate(expected, border).value, 1);
  EXPECT_FALSE(batches_gate(expected, batches_of(config_, 3)).passed);
}

TEST_F(LoaderRows, EveryLevelShowsItsOwnCounter) {
  for (const Optimization* row : rows())
    for (const Level& level : row->levels) {
      EventCounts counters;
      {
        TrainConfig config = with(level);
        if (row->name == "loader_reshape") config.phase_batches = 1;
        DataStream stream(open_data(config), config, Split::Train);
        const SpanSinkGuard guard(counters);
        (void)stream.next();
      }
      for (const Level& other : row->levels)
        EXPECT_EQ(counters.seen.count(other.span) > 0, &other == &level)
            << row->name << "/" << level.name << ": " << other.span;
    }
}

TEST_F(LoaderRows, SyntheticTokensStandBetweenTheBordersOfTheText) {
  const std::vector<Batch> text = batches_of(config_, 16);
  config_.data_source = TokenSource::Synthetic;
  DataStream stream(open_data(config_), config_, Split::Train);
  std::vector<Batch> first;
  for (const Batch& expected : text) {
    first.push_back(stream.next());
    EXPECT_EQ(first.back().documents.cu_host, expected.documents.cu_host);
    EXPECT_FALSE(at::equal(first.back().tokens, expected.tokens));
    EXPECT_GE(first.back().tokens.min().item<std::int64_t>(), 0);
    EXPECT_LT(first.back().tokens.max().item<std::int64_t>(),
              stream.source().tokenizer->vocab_size());
  }
  stream.pause(); // nothing is loaded any more
  const DataPosition after_17 = {0, 0, 17};
  EXPECT_TRUE(at::equal(stream.next().tokens, first[0].tokens));
  EXPECT_EQ(stream.position(), after_17);
  EXPECT_TRUE(at::equal(stream.next().tokens, first[1].tokens));
  stream.seek(after_17);
  EXPECT_TRUE(at::equal(stream.next().tokens, first[1].tokens));
  const DataStream held_out(open_data(config_), config_, Split::HeldOut); // stays text
  EXPECT_EQ(held_out.position(), DataPosition{});
}

TEST_F(LoaderRows, TrainingBatchesArePaddedAndHeldOutOnesAreNot) {
  config_.packing = Packing::Padded;
  for (const TokenSource source : {TokenSource::Real, TokenSource::Synthetic}) {
    config_.data_source = source;
    const Batch batch = batches_of(config_, 1).front();
    EXPECT_EQ(batch.padding, batch.targets.lt(0).sum().item<std::int64_t>());
    EXPECT_GT(batch.padding, 0);
    EXPECT_EQ(batch.token_count(), 2 * 64 - batch.padding);
  }
  DataStream held_out(open_data(config_), config_, Split::HeldOut);
  EXPECT_EQ(held_out.next().padding, 0);
}

// Documents take 2 ms each and the reader none: N threads give one each 2 ms / N, and never sooner.
TEST_F(LoaderRows, ThreadsDivideTheTimeOfASlowDocument) {
  config_.planted_document_ms = 2;
  for (const std::int64_t threads : {1, 2, 4, 8}) {
    config_.tokenizer_threads = threads;
    DataStream stream(open_data(config_), config_, Split::Train);
    std::uint64_t documents = 0;
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 40; ++i)
      documents += static_cast<std::uint64_t>(stream.next().documents.count());
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    // Documents that rows cut are counted twice at most.
    const double least = 0.002 * static_cast<double>(documents - 80) / static_cast<double>(threads);
    EXPECT_GT(seconds.count(), 0.9 * least) << threads;
    EXPECT_GT(static_cast<double>(stream.wait_ns()) * 1e-9, 0.5 * seconds.count()) << threads;
  }
}

} // namespace loader_rows_test
} // namespace assay
