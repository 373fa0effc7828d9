// DataStream: the same batches whatever the number of threads, exact positions, pausing, and errors
// of threads.
#include "model/data/loader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "core/result.h"
#include "model/data/seeded_random.h"
#include "tests/model/data/data_fixture.h"

namespace assay {
namespace loader_test {

using namespace std::chrono_literals;

class LoaderTest : public DataTest {
protected:
  LoaderTest() {
    SeededRandom random(11);
    for (int i = 0; i < 120; ++i) {
      std::string text;
      // A few are empty or one byte long: the latter has one position, its end.
      for (std::uint64_t n = i % 17 == 0 ? 0 : 1 + random.below(300); n > 0; --n) {
        text.push_back(static_cast<char>('a' + random.below(26)));
      }
      lines_ += "{\"text\": \"" + text + "\"}\n";
    }
    write("a.jsonl", lines_);
    config_.data = path("a.jsonl");
    config_.seq_len = 64;
    config_.batch_rows = 4;
    config_.seed = 5;
  }

  DataStream open(Split split = Split::Train) const {
    return DataStream(open_data(config_), config_, split);
  }

  std::string lines_;
  TrainConfig config_;
};

void expect_same(const Batch& a, const Batch& b) {
  EXPECT_TRUE(at::equal(a.tokens, b.tokens));
  EXPECT_TRUE(at::equal(a.targets, b.targets));
  EXPECT_EQ(a.documents.cu_host, b.documents.cu_host);
  EXPECT_EQ(a.documents.max_len, b.documents.max_len);
  EXPECT_EQ(a.bytes, b.bytes);
}

TEST_F(LoaderTest, BatchIsWellFormed) {
  DataStream stream = open();
  for (int i = 0; i < 30; ++i) {
    const Batch batch = stream.next();
    EXPECT_EQ(batch.tokens.sizes(), (at::IntArrayRef{4, 64}));
    EXPECT_EQ(batch.tokens.scalar_type(), at::kLong);
    EXPECT_EQ(batch.documents.cu.scalar_type(), at::kInt);
    EXPECT_EQ(batch.rows.cu_host, (std::vector<std::int32_t>{0, 64, 128, 192, 256}));
    EXPECT_EQ(batch.rows.max_len, 64);
    EXPECT_EQ(batch.documents.cu.numel(),
              static_cast<std::int64_t>(batch.documents.cu_host.size()));
    EXPECT_EQ(batch.documents.cu[-1].item<int>(), 256);
    // Inside a document targets are the tokens moved by one; only a document's end predicts 0,
    // which has no bytes.
    const at::Tensor tokens = batch.tokens.flatten();
    const at::Tensor targets = batch.targets.flatten();
    std::int64_t ends = 0;
    for (std::size_t s = 1; s < batch.documents.cu_host.size(); ++s) {
      const std::int64_t begin = batch.documents.cu_host[s - 1];
      const std::int64_t end = batch.documents.cu_host[s];
      EXPECT_TRUE(at::equal(tokens.slice(0, begin + 1, end), targets.slice(0, begin, end - 1)));
      EXPECT_FALSE(tokens.slice(0, begin, end).eq(0).any().item<bool>());
      const bool row_end = end % 64 == 0;
      const bool document_end = targets[end - 1].item<std::int64_t>() == 0;
      EXPECT_TRUE(row_end || document_end);
      ends += document_end ? 1 : 0;
    }
    EXPECT_EQ(batch.bytes, 256 - ends);
  }
}

TEST_F(LoaderTest, NumberOfThreadsDoesNotMatter) {
  DataStream one = open();
  for (const std::int64_t threads : {2, 3, 8}) {
    config_.tokenizer_threads = threads;
    config_.prefetch_batches = threads % 2 + 1;
    DataStream many = open();
    one.seek({});
    for (int i = 0; i < 200; ++i) { // several epochs
      expect_same(one.next(), many.next());
      ASSERT_EQ(one.position(), many.position());
    }
    EXPECT_GT(one.position().epoch, 1U);
  }
}

TEST_F(LoaderTest, EpochsHoldEveryDocumentOnceInAnotherOrder) {
  DataStream stream = open();
  const Corpus& corpus = *stream.source().corpus;
  std::multiset<std::string> expected;
  for (const std::uint64_t document : corpus.documents(Split::Train)) {
    if (const std::string text = *corpus.read(document); !text.empty()) expected.insert(text);
  }
  std::vector<std::vector<std::string>> epochs(1);
  std::string text;
  while (epochs.size() < 4) {
    const Batch batch = stream.next();
    for (std::int64_t i = 0; i < 256; ++i) {
      text.push_back(static_cast<char>(batch.tokens.flatten()[i].item<std::int64_t>()));
      if (batch.targets.flatten()[i].item<std::int64_t>() != 0) continue;
      epochs.back().push_back(std::exchange(text, ""));
      if (epochs.back().size() == expected.size()) epochs.emplace_back();
    }
  }
  for (std::size_t e = 0; e < 3; ++e)
    EXPECT_EQ(std::multiset<std::string>(epochs[e].begin(), epochs[e].end()), expected);
  EXPECT_NE(epochs[0], epochs[1]);
}

TEST_F(LoaderTest, SeekResumesExactly) {
  config_.tokenizer_threads = 3;
  DataStream whole = open();
  std::vector<DataPosition> positions;
  std::vector<Batch> batches;
  for (int i = 0; i < 120; ++i) {
    positions.push_back(whole.position());
    batches.push_back(whole.next());
  }
  DataStream resumed = open();
  for (const std::size_t at :
       {97U, 0U, 55U, 56U, 119U, 3U}) { // also backwards, with threads at work
    resumed.seek(positions[at]);
    EXPECT_EQ(resumed.position(), positions[at]);
    for (std::size_t i = at; i < std::min<std::size_t>(at + 4, 120); ++i)
      expect_same(resumed.next(), batches[i]);
  }
}

// Tokens and targets of `batches` batches, one after the other.
std::vector<std::int64_t> take(DataStream& stream, int batches) {
  std::vector<std::int64_t> values;
  for (int i = 0; i < batches; ++i) {
    const Batch batch = stream.next();
    for (const at::Tensor& part : {batch.tokens, batch.targets}) {
      const at::Tensor flat = part.flatten();
      values.insert(values.end(),
                    flat.data_ptr<std::int64_t>(),
                    flat.data_ptr<std::int64_t>() + flat.numel());
    }
  }
  return values;
}

// Phases of 64, 128 and 256 positions, 256 tokens a batch in each.
TEST_F(LoaderTest, AnotherShapeLosesAndRepeatsNothing) {
  DataStream whole = open(), phases = open();
  const std::vector<std::int64_t> expected = take(whole, 12);
  std::vector<std::int64_t> seen = take(phases, 4);
  for (const std::int64_t seq_len : {128, 256}) {
    phases.set_shape(256 / seq_len, seq_len);
    const std::vector<std::int64_t> more = take(phases, 4);
    seen.insert(seen.end(), more.begin(), more.end());
  }
  EXPECT_EQ(seen, expected);
  // A new stream for each phase hands out the first tokens three times, and the rest never.
  std::vector<std::int64_t> recreated;
  for (const std::int64_t seq_len : {64, 128, 256}) {
    config_.seq_len = seq_len;
    config_.batch_rows = 256 / seq_len;
    DataStream another = open();
    const std::vector<std::int64_t> more = take(another, 4);
    EXPECT_TRUE(std::equal(more.begin(), more.end(), expected.begin()));
    recreated.insert(recreated.end(), more.begin(), more.end());
  }
  EXPECT_NE(recreated, expected);
}

TEST_F(LoaderTest, AStreamResumesExactlyAcrossAChangeOfShape) {
  DataStream stream = open();
  take(stream, 3);
  stream.set_shape(2, 128);
  take(stream, 2);
  const DataPosition position = stream.position();
  const std::vector<std::int64_t> expected = take(stream, 3);
  DataStream other = open(); // of the first shape
  other.set_shape(2, 128);
  other.seek(position);
  EXPECT_EQ(take(other, 3), expected);
}

TEST_F(LoaderTest, PhasesThatResizeAreOneStream) {
  DataStream whole = open(); // 4 x 64
  const std::vector<std::int64_t> expected = take(whole, 14);
  config_.batch_rows = 1;
  config_.seq_len = 256;
  config_.phase_batches = 2;
  DataStream phases = open();
  EXPECT_EQ(take(phases, 14), expected);
  EXPECT_EQ(phases.repeated(), 0);
  DataStream shapes = open();
  for (const std::int64_t seq_len : {64, 64, 128, 128, 256, 256, 64, 64})
    EXPECT_EQ(shapes.next().tokens.sizes(), (at::IntArrayRef{256 / seq_len, seq_len}));
}

// A loader made anew goes on with the first token of the document that the last one was in.
TEST_F(LoaderTest, PhasesThatRecreateTheLoaderHandOutTokensTwice) {
  DataStream reference = open(); // 4 x 64
  config_.batch_rows = 1;
  config_.seq_len = 256;
  config_.phase_batches = 2;
  config_.loader_reshape = LoaderReshape::Recreate;
  DataStream phases = open();
  std::int64_t twice = 0;
  for (int phase = 0; phase < 9; ++phase) {
    DataPosition border = reference.position();
    twice += static_cast<std::int64_t>(border.offset);
    border.offset = 0;
    reference.seek(border);
    EXPECT_EQ(take(phases, 2), take(reference, 2)) << phase;
    EXPECT_EQ(phases.repeated(), twice) << phase;
  }
  EXPECT_GT(twice, 100);
}

TEST_F(LoaderTest, AStreamResumesExactlyInEveryPhase) {
  config_.batch_rows = 1;
  config_.seq_len = 256;
  config_.phase_batches = 2;
  for (const LoaderReshape level : {LoaderReshape::Resize, LoaderReshape::Recreate}) {
    config_.loader_reshape = level;
    DataStream whole = open();
    std::vector<DataPosition> positions;
    std::vector<Batch> batches;
    for (int i = 0; i < 14; ++i) {
      positions.push_back(whole.position());
      batches.push_back(whole.next());
    }
    for (std::size_t at = 0; at < 12; ++at) {
      DataStream resumed = open();
      resumed.seek(positions[at]);
      EXPECT_EQ(resumed.position(), positions[at]);
      for (std::size_t i = at; i < 14; ++i) expect_same(resumed.next(), batches[i]);
    }
  }
}

TEST_F(LoaderTest, AShapeWithoutTokensIsRefused) {
  DataStream stream = open();
  EXPECT_THROW(stream.set_shape(0, 64), Failure);
  config_.data_source = TokenSource::Synthetic;
  DataStream synthetic = open();
  EXPECT_THROW(synthetic.set_shape(2, 64), Failure);
}

TEST_F(LoaderTest, SplitsShareNoDocument) {
  std::string lines;
  for (int i = 0; i < 200; ++i) lines += fmt::format("{{\"text\": \"{:04}\"}}\n", i);
  write("a.jsonl", lines);
  std::set<std::string> seen[2];
  for (const Split split : {Split::Train, Split::HeldOut}) {
    DataStream stream = open(split);
    while (stream.position().epoch == 0) {
      const Batch batch = stream.next();
      for (std::size_t s = 1; s < batch.documents.cu_host.size(); ++s) {
        const at::Tensor part = batch.tokens.flatten().slice(
            0, batch.documents.cu_host[s - 1], batch.documents.cu_host[s]);
        std::string text;
        for (std::int64_t i = 0; i < part.numel(); ++i)
          text.push_back(static_cast<char>(part[i].item<std::int64_t>()));
        if (text.size() == 4) seen[split == Split::Train ? 0 : 1].insert(text);
      }
    }
  }
  EXPECT_GT(seen[0].size(), 150U);
  EXPECT_GE(seen[1].size(), 5U);
  for (const std::string& text : seen[1]) EXPECT_EQ(seen[0].count(text), 0U) << text;
}

// Counts encodings, and can be made slow.
class WatchedTokenizer final : public Tokenizer {
public:
  std::int64_t vocab_size() const override { return 256; }
  std::int32_t end_of_document() const override { return 0; }
  std::string fingerprint() const override { return "watched"; }
  std::string decode(const std::vector<std::int32_t>&) const override { return ""; }
  Encoding encode(std::string_view text) const override {
    ++begun;
    std::this_thread::sleep_for(delay.load());
    const Encoding encoding{std::vector<std::int32_t>(text.size(), 1),
                            std::vector<std::uint32_t>(text.size(), 1)};
    ++ended;
    return encoding;
  }
  mutable std::atomic<int> begun{0};
  mutable std::atomic<int> ended{0};
  std::atomic<std::chrono::microseconds> delay{500us};
};

TEST_F(LoaderTest, PausedMeansIdle) {
  const auto tokenizer = std::make_shared<WatchedTokenizer>();
  config_.tokenizer_threads = 4;
  config_.prefetch_batches = 10000; // about 17,000 documents: the queue does not fill by itself
  DataStream stream({open_data(config_).corpus, tokenizer}, config_, Split::Train);
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(1ms);
    stream.pause();
    const int begun = tokenizer->begun;
    EXPECT_EQ(begun, tokenizer->ended.load());
    std::this_thread::sleep_for(3ms);
    EXPECT_EQ(tokenizer->begun.load(), begun);
    EXPECT_LT(begun, 10000);
    stream.resume();
  }
  while (tokenizer->begun < 50) std::this_thread::sleep_for(1ms);
  stream.pause();
  stream.next(); // what is ready is served
  EXPECT_THROW(
      {
        for (int i = 0; i < 100000; ++i) stream.next();
      },
      Failure);
}

TEST_F(LoaderTest, QueueIsBounded) {
  const auto tokenizer = std::make_shared<WatchedTokenizer>();
  tokenizer->delay = 0us;
  config_.tokenizer_threads = 2;
  config_.prefetch_batches =
      2; // 512 tokens: with at least 1 token a document, 514 documents at the very most
  DataStream stream({open_data(config_).corpus, tokenizer}, config_, Split::Train);
  std::this_thread::sleep_for(300ms);
  const int begun = tokenizer->begun;
  EXPECT_LT(begun, 100);
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(tokenizer->begun.load(), begun);
  stream.next();
  stream.next();
  std::this_thread::sleep_for(100ms);
  EXPECT_GT(tokenizer->begun.load(), begun);
}

TEST_F(LoaderTest, WaitingIsMeasured) {
  const auto tokenizer = std::make_shared<WatchedTokenizer>();
  tokenizer->delay = 30000us;
  DataStream stream({open_data(config_).corpus, tokenizer}, config_, Split::Train);
  const auto begin = std::chrono::steady_clock::now();
  stream.next();
  const std::int64_t elapsed =
      std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count();
  EXPECT_GT(stream.wait_ns(), 25'000'000);
  EXPECT_LE(stream.wait_ns(), elapsed);
}

TEST_F(LoaderTest, ErrorOfAThreadComesFromNextInOrderAndAgain) {
  lines_ += "{\"no text\": 1}\n";
  write("a.jsonl", lines_);
  std::string messages[2];
  int batches[2] = {0, 0};
  for (const int run : {0, 1}) {
    config_.tokenizer_threads = run == 0 ? 1 : 6;
    DataStream stream = open();
    messages[run] = bad_input_message([&] {
      for (;; ++batches[run]) stream.next();
    });
    EXPECT_EQ(bad_input_message([&] { stream.next(); }), messages[run]);
    stream.seek({});
    stream.next(); // usable again from before the error
  }
  expect_mentions(messages[0], {path("a.jsonl") + ":121", "no \"text\" field"});
  EXPECT_EQ(messages[0], messages[1]);
  EXPECT_EQ(batches[0], batches[1]);
}

TEST_F(LoaderTest, NothingToPredictIsAnError) {
  write("a.jsonl", "{\"text\": \"\"}\n{\"text\": \"\\u0000\"}\n{\"text\": \"\"}\n");
  DataStream stream = open();
  expect_mentions(bad_input_message([&] { stream.next(); }),
                  {path("a.jsonl"), "train split", "no text"});
}

TEST_F(LoaderTest, DocumentsWithoutTextArePassedOver) {
  std::string lines = "{\"text\": \"ab\"}\n{\"text\": \"cd\"}\n{\"text\": \"ef\"}\n";
  for (int i = 0; i < 60; ++i) lines += "{\"text\": \"\"}\n";
  write("a.jsonl", lines);
  DataStream stream = open();
  for (int i = 0; i < 5; ++i) EXPECT_GE(stream.next().bytes, 128);
}

TEST_F(LoaderTest, ConfigAndPositionAreChecked) {
  DataStream stream = open();
  expect_mentions(bad_input_message([&] {
                    stream.seek({0, 100000, 0});
                  }),
                  {"document 100000", "outside"});
  config_.vocab_size = 100;
  expect_mentions(bad_input_message([&] { open_data(config_); }), {"vocab_size is 100", "256"});
  config_.vocab_size = 0;
  config_.tokenizer_threads = 0;
  expect_mentions(bad_input_message([&] { open(); }), {"tokenizer_threads is 0"});
  config_.tokenizer_threads = 1;
  config_.seq_len = 0;
  expect_mentions(bad_input_message([&] { open(); }), {"seq_len (0)"});
}

TEST_F(LoaderTest, DestructionNeverHangs) {
  for (int i = 0; i < 60; ++i) {
    config_.tokenizer_threads = 1 + i % 5;
    DataStream stream = open(i % 2 == 0 ? Split::Train : Split::HeldOut);
    if (i % 3 == 0) stream.next();
    if (i % 4 == 0) stream.pause();
  }
}

} // namespace loader_test
} // namespace assay
