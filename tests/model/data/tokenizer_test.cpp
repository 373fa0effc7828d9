// Tokenizers: round trips, byte counts, and training a SentencePiece model from a corpus.
#include "model/data/tokenizer.h"

#include <gtest/gtest.h>

#include <numeric>

#include "model/data/seeded_random.h"
#include "tests/model/data/data_fixture.h"

namespace assay {
namespace tokenizer_test {

using TokenizerTest = DataTest;

std::uint64_t byte_sum(const Encoding& encoding) {
  return std::accumulate(encoding.bytes.begin(), encoding.bytes.end(), std::uint64_t{0});
}

TEST(ByteTokenizer, IdsAreBytes) {
  const auto tokenizer = open_tokenizer("bytes");
  EXPECT_EQ(tokenizer->vocab_size(), 256);
  EXPECT_EQ(tokenizer->end_of_document(), 0);
  const std::string text = "a\xff\n\xc3\xa9";
  const Encoding encoding = tokenizer->encode(text);
  EXPECT_EQ(encoding.ids, (std::vector<std::int32_t>{97, 255, 10, 195, 169}));
  EXPECT_EQ(byte_sum(encoding), text.size());
  EXPECT_EQ(tokenizer->decode({97, 0, 255}), "a\xff");
  EXPECT_THROW((void)tokenizer->decode({256}), Failure);
  EXPECT_THROW((void)tokenizer->decode({-1}), Failure);
}

// Words of a small language, so that a model learns something in a second.
std::string words(std::uint64_t seed, int count) {
  SeededRandom random(seed);
  static constexpr const char* kSyllables[] = {
      "ta", "ri", "mon", "du", "sel", "ka", "vor", "ne", "pi", "shu"};
  std::string text;
  for (int i = 0; i < count; ++i) {
    for (std::uint64_t j = 1 + random.below(4); j > 0; --j) text += kSyllables[random.below(10)];
    text += random.below(9) == 0 ? "\n\t" : (random.below(5) == 0 ? "  " : " ");
  }
  return text;
}

class TrainTokenizerTest : public DataTest {
protected:
  TrainTokenizerTest() {
    for (int i = 0; i < 40; ++i)
      write(fmt::format("text/{}.txt", i), words(static_cast<std::uint64_t>(i), 400));
  }
  TrainedTokenizer
  train(std::int64_t vocab, const std::string& out, TokenizerTraining options = {}) const {
    return train_tokenizer(Corpus::open(path("text")), vocab, path(out), options);
  }
};

TEST_F(TrainTokenizerTest, MakesALosslessModel) {
  std::vector<std::string> progress;
  TokenizerTraining options;
  options.progress = [&](std::string_view line) { progress.emplace_back(line); };
  const TrainedTokenizer trained = train(400, "m.model", options);
  EXPECT_EQ(trained.vocab_size, 400);
  EXPECT_FALSE(progress.empty());
  const auto tokenizer = open_tokenizer(path("m.model"));
  EXPECT_EQ(tokenizer->vocab_size(), 400);
  EXPECT_EQ(tokenizer->fingerprint(), trained.fingerprint);

  const std::string seen = words(7, 300);
  for (const std::string& text : {seen,
                                  std::string("  two  spaces \t\n\n end "),
                                  std::string("\u20ac \u4e2d\u6587 \U0001F600\n")}) {
    const Encoding encoding = tokenizer->encode(text);
    EXPECT_EQ(tokenizer->decode(encoding.ids), text);
    EXPECT_EQ(byte_sum(encoding), text.size());
    for (const std::int32_t id : encoding.ids) EXPECT_NE(id, tokenizer->end_of_document());
  }
  EXPECT_LT(tokenizer->encode(seen).ids.size(), seen.size() / 2);
}

TEST_F(TrainTokenizerTest, SampleIsBoundedAndModelDependsOnSeedAlone) {
  TokenizerTraining options;
  options.sample_bytes = 20000;
  const TrainedTokenizer first = train(330, "1.model", options);
  EXPECT_LE(first.sample_bytes, 20000U);
  EXPECT_LT(first.sample_documents, 38U);
  EXPECT_EQ(train(330, "2.model", options).fingerprint, first.fingerprint);
  options.seed = 2;
  EXPECT_NE(train(330, "3.model", options).fingerprint, first.fingerprint);
}

TEST_F(TrainTokenizerTest, Refusals) {
  expect_mentions(
      bad_input_message([&] { train(100000, "m.model"); }),
      {"a vocabulary of 100000", "cannot be trained", "set it to a value <=", "more text"});
  expect_mentions(bad_input_message([&] { train(100, "m.model"); }),
                  {"a vocabulary of 100 is not possible"});
  expect_mentions(bad_input_message([&] { train(330, "no/where/m.model"); }),
                  {"no/where/m.model", "No such file"});
  TokenizerTraining options;
  options.model_type = "word2vec";
  expect_mentions(bad_input_message([&] { train(330, "m.model", options); }),
                  {"word2vec", "unigram or bpe"});
  EXPECT_FALSE(std::filesystem::exists(path("m.model")));
}

TEST_F(TrainTokenizerTest, BpeWorksToo) {
  TokenizerTraining options;
  options.model_type = "bpe";
  train(400, "bpe.model", options);
  const auto tokenizer = open_tokenizer(path("bpe.model"));
  const std::string text = words(3, 50);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text).ids), text);
}

TEST_F(TokenizerTest, OpenErrors) {
  expect_mentions(bad_input_message([&] { open_tokenizer(path("none.model")); }),
                  {path("none.model"), "does not exist"});
  for (const std::string& content :
       {std::string("hello"), std::string(), std::string(1000, '\x7f')}) {
    const std::string file = write("bad.model", content);
    expect_mentions(bad_input_message([&] { open_tokenizer(file); }),
                    {file, "is not a SentencePiece model"});
  }
}

} // namespace tokenizer_test
} // namespace assay
