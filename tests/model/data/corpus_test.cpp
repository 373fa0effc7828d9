// Corpus: what is a document, in which order, and one clear error for each kind of bad input.
#include "model/data/corpus.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>

#include "model/data/seeded_random.h"
#include "tests/model/data/data_fixture.h"
#include "tests/paths.h"

namespace assay {
namespace corpus_test {

using CorpusTest = DataTest;

std::vector<std::string> texts(const Corpus& corpus) {
  std::vector<std::string> all;
  for (std::uint64_t i = 0; i < corpus.size(); ++i)
    all.push_back(corpus.read(i).value_or("<binary>"));
  return all;
}

std::string random_lines(std::uint64_t seed, std::size_t lines) {
  SeededRandom random(seed);
  std::string text;
  for (std::size_t i = 0; i < lines; ++i) {
    text += fmt::format("{{\"id\": {}, \"text\": \"line {} ", i, i);
    for (std::uint64_t j = random.below(400); j > 0; --j)
      text.push_back(static_cast<char>('a' + random.below(26)));
    text += "\"}\n";
  }
  return text;
}

TEST_F(CorpusTest, DirectoryIsSortedAndRecursive) {
  write("b.txt", "second");
  write("a/z.txt", "first");
  write("c.md", "third");
  write(".git/config", "hidden");
  write("a/.swp", "hidden");
  const Corpus corpus = Corpus::open(path());
  EXPECT_EQ(texts(corpus), (std::vector<std::string>{"first", "second", "third"}));
  EXPECT_EQ(corpus.name(0), path("a/z.txt"));
}

TEST_F(CorpusTest, BinaryAndEmptyFilesAreSkippedAndCounted) {
  write("a.txt", "text");
  write("b.bin", std::string_view("ab\0cd", 5));
  write("c.txt", "");
  write("late.bin",
        std::string(20000, 'x') + std::string(1, '\0')); // NUL beyond what open() looks at
  write("utf8.txt", "\xff\xfe not UTF-8 \x80");
  const Corpus corpus = Corpus::open(path());
  EXPECT_EQ(corpus.skipped().binary, 1U);
  EXPECT_EQ(corpus.skipped().empty, 1U);
  EXPECT_EQ(corpus.skipped().text(), "2 files skipped (1 binary, 1 empty)");
  EXPECT_EQ(texts(corpus),
            (std::vector<std::string>{"text", "<binary>", "\xff\xfe not UTF-8 \x80"}));
}

TEST_F(CorpusTest, JsonlPlainAndGzipAndMultiMember) {
  const std::string first =
      "{\"text\": \"one\\u00e9\"}\r\n\n \t\r\n{\"other\": 1, \"text\": \"\"}\n";
  const std::string second = "{\"text\": \"three\"}";
  write("plain.jsonl", first + second);
  const Corpus plain = Corpus::open(path("plain.jsonl"));
  EXPECT_EQ(texts(plain), (std::vector<std::string>{"one\u00e9", "", "three"}));
  EXPECT_EQ(plain.name(2), path("plain.jsonl") + ":5");

  const std::string members =
      contents(write_gzip("1.gz", first)) + contents(write_gzip("2.gz", second));
  EXPECT_EQ(texts(Corpus::open(write("both.jsonl.gz", members))), texts(plain));
}

// Several access points, read in an order that jumps between them.
TEST_F(CorpusTest, GzipJsonlIsReadAtRandom) {
  const std::string text = random_lines(3, 40000);
  ASSERT_GT(text.size(), std::size_t{6} << 20);
  const Corpus plain = Corpus::open(write("a.jsonl", text));
  const std::size_t half = text.find('\n', text.size() / 2) - 7; // members may end inside a line
  const std::string members = contents(write_gzip("1.gz", text.substr(0, half))) +
                              contents(write_gzip("2.gz", text.substr(half)));
  const Corpus packed = Corpus::open(write("a.jsonl.gz", members));
  ASSERT_EQ(packed.size(), 40000U);
  SeededRandom random(5);
  for (int i = 0; i < 300; ++i) {
    const std::uint64_t document = random.below(packed.size());
    ASSERT_EQ(packed.read(document), plain.read(document)) << document;
  }
  EXPECT_EQ(packed.read(packed.size() - 1), plain.read(plain.size() - 1));
}

TEST_F(CorpusTest, FingerprintFollowsNamesSizesAndBeginnings) {
  write("a.txt", "first text");
  write("b.txt", "second text");
  const std::string before = Corpus::open(path()).fingerprint();
  EXPECT_EQ(Corpus::open(path() + "/").fingerprint(), before);
  write("b.txt", "SECOND text"); // as long as before
  const std::string after = Corpus::open(path()).fingerprint();
  EXPECT_NE(after, before);
  write("b.txt", "second text");
  EXPECT_EQ(Corpus::open(path()).fingerprint(), before);
  write("c.txt", "third text");
  EXPECT_NE(Corpus::open(path()).fingerprint(), before);
}

TEST_F(CorpusTest, GzipTextFileIsADocument) {
  write_gzip("a.txt.gz", "zipped");
  write("b.txt", "plain");
  EXPECT_EQ(texts(Corpus::open(path())), (std::vector<std::string>{"zipped", "plain"}));
}

TEST_F(CorpusTest, OneTextFileIsCutAtLineEnds) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += fmt::format("line {} of a text\n", i);
  for (const std::string& file : {write("a.txt", text), write_gzip("b.txt.gz", text)}) {
    const Corpus corpus = Corpus::open(file);
    EXPECT_GT(corpus.size(), 20U);
    std::string joined;
    for (const std::string& piece : texts(corpus)) {
      EXPECT_TRUE(piece.ends_with('\n'));
      joined += piece;
    }
    EXPECT_EQ(joined, text);
  }
}

TEST_F(CorpusTest, OneLongLineIsCutBetweenCharacters) {
  std::string text;
  for (int i = 0; i < 20000; ++i) text += "\u20ac";
  const Corpus corpus = Corpus::open(write("a.txt", text));
  EXPECT_GT(corpus.size(), 3U);
  std::string joined;
  for (const std::string& piece : texts(corpus)) {
    EXPECT_EQ(piece.size() % 3, 0U);
    joined += piece;
  }
  EXPECT_EQ(joined, text);
  EXPECT_EQ(texts(Corpus::open(write("short.txt", "ab"))), (std::vector<std::string>{"a", "b"}));
}

TEST_F(CorpusTest, SplitIsAPartitionOfAboutOneInTwenty) {
  for (int i = 0; i < 2000; ++i) write(fmt::format("{:04}.txt", i), "x");
  const Corpus corpus = Corpus::open(path());
  const std::vector<std::uint64_t> train = corpus.documents(Split::Train);
  const std::vector<std::uint64_t> held_out = corpus.documents(Split::HeldOut);
  EXPECT_EQ(train.size() + held_out.size(), 2000U);
  EXPECT_NEAR(
      static_cast<double>(held_out.size()), 100.0, 40.0); // 4 standard deviations of a binomial
  std::set<std::uint64_t> all(train.begin(), train.end());
  all.insert(held_out.begin(), held_out.end());
  EXPECT_EQ(all.size(), 2000U);
}

TEST_F(CorpusTest, EverySplitHasADocument) {
  std::string lines = "{\"text\": \"x\"}\n";
  for (int n = 2; n <= 40; ++n) {
    lines += "{\"text\": \"x\"}\n";
    const Corpus corpus = Corpus::open(write("a.jsonl", lines));
    EXPECT_GE(corpus.documents(Split::Train).size(), 1U) << n;
    EXPECT_GE(corpus.documents(Split::HeldOut).size(), 1U) << n;
    EXPECT_EQ(corpus.documents(Split::Train).size() + corpus.documents(Split::HeldOut).size(),
              corpus.size());
  }
}

TEST_F(CorpusTest, FingerprintFollowsNamesAndSizes) {
  write("d/a.txt", "one");
  write("d/b.txt", "two");
  const std::string before = Corpus::open(path("d")).fingerprint();
  EXPECT_EQ(Corpus::open(path("d")).fingerprint(), before);
  std::filesystem::rename(directory_ / "d", directory_ / "moved");
  EXPECT_EQ(Corpus::open(path("moved")).fingerprint(), before);
  write("moved/b.txt", "longer");
  EXPECT_NE(Corpus::open(path("moved")).fingerprint(), before);
}

using CorpusErrorTest = DataTest;

std::string open_error(const std::string& path) {
  return bad_input_message([&] { Corpus::open(path); });
}

TEST_F(CorpusErrorTest, MissingAndEmpty) {
  expect_mentions(open_error(""), {"no data given", "`data`"});
  expect_mentions(open_error(path("nowhere")),
                  {path("nowhere"), "does not exist", "give a directory"});
  expect_mentions(open_error(path()), {path(), "contains no file"});
  std::filesystem::create_symlink("loop", path("loop"));
  expect_mentions(open_error(path("loop")), {path("loop"), "symbolic links"});
  std::filesystem::remove(path("loop"));
  write("a.txt", "");
  write("b.bin", std::string_view("\0", 1));
  expect_mentions(open_error(path()),
                  {path(), "contains no text", "2 files skipped (1 binary, 1 empty)"});
  expect_mentions(open_error(write("one.bin", std::string(9000, 'x') + std::string(1, '\0'))),
                  {"1 file skipped (1 binary)"});
}

TEST_F(CorpusErrorTest, SingleDocument) {
  const Corpus corpus = Corpus::open(write("a.jsonl", "{\"text\": \"only\"}\n"));
  for (const Split split : {Split::Train, Split::HeldOut}) {
    expect_mentions(bad_input_message([&] { (void)corpus.documents(split); }),
                    {path("a.jsonl"), "a single document", "add documents"});
  }
  write("b.bin", std::string_view("\0", 1));
  expect_mentions(bad_input_message([&] { (void)Corpus::open(path()).documents(Split::Train); }),
                  {"a single document", "1 file skipped (1 binary)", "add documents"});
}

TEST_F(CorpusErrorTest, JsonlIsCheckedOnOpenAndOnRead) {
  expect_mentions(open_error(write("a.jsonl", "{\"body\": 1}\n")),
                  {path("a.jsonl") + ":1", "no \"text\" field"});
  expect_mentions(open_error(write("a.jsonl", "{\"text\": 5}\n")),
                  {path("a.jsonl") + ":1", "no \"text\" field"});
  expect_mentions(open_error(write("a.jsonl", "\n{\"text\": \"\n")),
                  {path("a.jsonl") + ":2", "malformed JSON"});
  expect_mentions(open_error(write("a.jsonl", "[1, 2]\n")),
                  {path("a.jsonl") + ":1", "no \"text\" field"});
  const Corpus late = Corpus::open(write("a.jsonl", "{\"text\": \"fine\"}\n\nnot json\n"));
  expect_mentions(bad_input_message([&] { (void)late.read(1); }),
                  {path("a.jsonl") + ":3", "malformed JSON"});
}

TEST_F(CorpusErrorTest, TruncatedOrDamagedGzip) {
  const std::string whole = contents(write_gzip("whole.gz", random_lines(1, 3000)));
  for (const std::size_t keep : {std::size_t{20}, whole.size() / 2, whole.size() - 1}) {
    const std::string file = write("cut.jsonl.gz", whole.substr(0, keep));
    expect_mentions(open_error(file), {file, "truncated"});
  }
  std::string damaged = whole;
  damaged[whole.size() / 2] = static_cast<char>(damaged[whole.size() / 2] ^ 0x55);
  const std::string file = write("bad.jsonl.gz", damaged);
  expect_mentions(open_error(file), {file, "gzip"});
  expect_mentions(open_error(write("plain.txt.gz", "plain")), {"plain.txt.gz", "is not gzip"});
}

TEST_F(CorpusTest, WhatCannotBeReadIsSkippedAndCounted) {
  write("a.txt", "text");
  write("b.txt", "secret");
  ::chmod(path("b.txt").c_str(), 0);
  std::filesystem::create_symlink(path("gone"), path("link.txt"));
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  const bool root = ::geteuid() == 0;
  if (root) { // permissions do not bind root
    ASSERT_EQ(::seteuid(65534), 0);
  }
  const Corpus corpus = Corpus::open(path());
  if (root) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  EXPECT_EQ(corpus.size(), 1U);
  EXPECT_EQ(corpus.skipped().unreadable, 2U);
  EXPECT_EQ(corpus.skipped().special, 1U);
}

TEST_F(CorpusErrorTest, PipesAndDevicesAreRefusedAtOnce) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  expect_mentions(open_error(path("pipe")), {path("pipe"), "it is a pipe"});
  expect_mentions(open_error("/dev/null"), {"/dev/null", "it is a device"});
  expect_mentions(open_error(path()),
                  {"contains no text", "1 file skipped (1 not a regular file)"});
}

TEST_F(CorpusErrorTest, FileChangedDuringUse) {
  write("a.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n");
  const Corpus corpus = Corpus::open(path("a.jsonl"));
  write("a.jsonl", "{\"text\": \"one\"}\n");
  expect_mentions(bad_input_message([&] { (void)corpus.read(0); }),
                  {path("a.jsonl"), "was changed"});
}

class ParquetTest : public CorpusTest {
protected:
  static std::string file(const std::string& name) {
    return test::source_dir() + "/tests/model/data/parquet/" + name;
  }
};

TEST_F(ParquetTest, RowsWithTextAreDocuments) {
  const Corpus corpus = Corpus::open(file("texts.parquet"));
  EXPECT_EQ(texts(corpus), (std::vector<std::string>{"first", "second é", "third", "third"}));
  EXPECT_EQ(corpus.name(1), file("texts.parquet") + ":4");
  EXPECT_EQ(corpus.bytes(1), 9U);
  const Corpus plain = Corpus::open(file("plain.parquet"));
  ASSERT_EQ(plain.size(), 3000U);
  for (const std::uint64_t i : {0U, 63U, 64U, 1024U, 2999U})
    EXPECT_EQ(plain.read(i), fmt::format("text {} {}", i, std::string(i % 50, 'x')));
}

// Beside other files, two of them, each with its own documents.
TEST_F(ParquetTest, FilesOfADirectory) {
  std::filesystem::copy(file("texts.parquet"), path("b.parquet"));
  std::filesystem::copy(file("texts.parquet"), path("d.parquet"));
  write("a.txt", "one");
  write("c.jsonl", "{\"text\": \"two\"}\n");
  const Corpus corpus = Corpus::open(path());
  EXPECT_EQ(texts(corpus),
            (std::vector<std::string>{"one",
                                      "first",
                                      "second é",
                                      "third",
                                      "third",
                                      "two",
                                      "first",
                                      "second é",
                                      "third",
                                      "third"}));
  write("d.parquet", "none");
  expect_mentions(bad_input_message([&] { (void)Corpus::open(path()); }),
                  {"d.parquet: cannot be read as Parquet"});
}

TEST_F(ParquetTest, WhatCannotBeReadIsNamed) {
  expect_mentions(bad_input_message([&] { (void)Corpus::open(file("other.parquet")); }),
                  {"no column `text`", "content, text.more"});
  std::string whole;
  {
    std::ifstream in(file("plain.parquet"), std::ios::binary);
    whole.assign(std::istreambuf_iterator<char>(in), {});
  }
  const std::string cut = write("cut.parquet", whole.substr(0, whole.size() / 2));
  expect_mentions(bad_input_message([&] { (void)Corpus::open(cut); }), {"cut.parquet: cannot"});
  for (std::size_t at = whole.size() / 8; at < whole.size() / 4; ++at) whole[at] ^= 0x5a;
  const std::string damaged = write("damaged.parquet", whole);
  expect_mentions(bad_input_message([&] { (void)Corpus::open(damaged); }),
                  {"damaged.parquet: cannot"});
}

} // namespace corpus_test
} // namespace assay
