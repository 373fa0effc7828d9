// The safetensors reader against files of every wrong kind: always an error, never a crash.
#include "model/training/safetensors.h"

#include <gtest/gtest.h>

#include "model/data/seeded_random.h"
#include "tests/model/data/data_fixture.h"

namespace assay {
namespace checkpoint_safetensors_test {

std::string length_word(std::uint64_t value) {
  std::string word;
  for (int i = 0; i < 8; ++i) word.push_back(static_cast<char>((value >> (8 * i)) & 0xff));
  return word;
}

std::string file_of(const std::string& header, std::size_t data) {
  return length_word(header.size()) + header + std::string(data, 'd');
}

class SafetensorsTest : public DataTest {
protected:
  std::string error_of(const std::string& content) const {
    const std::string file = write("t.safetensors", content);
    const Result<SafetensorsHeader> header = read_safetensors_header(file);
    if (header) {
      ADD_FAILURE() << "accepted: " << content.substr(8);
      return "";
    }
    expect_mentions(header.error().message, {file, "is not a whole safetensors file"});
    return header.error().message;
  }
};

std::string good_file() {
  std::vector<TensorEntry> tensors = {
      {"a", "F32", {2, 3}}, {"b.c", "I64", {}}, {"none", "U8", {0, 5}}, {"d", "BF16", {4}}};
  return make_safetensors_header(tensors, {{"format", "pt"}, {"note", "x \"y\""}}) +
         std::string(24 + 8 + 8, 'd');
}

TEST_F(SafetensorsTest, WrittenHeaderIsReadBack) {
  const std::string content = good_file();
  const Result<SafetensorsHeader> header = read_safetensors_header(write("t.safetensors", content));
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_EQ(header->data_begin % 8, 0U);
  EXPECT_EQ(header->file_size, content.size());
  EXPECT_EQ(header->metadata.at("note"), "x \"y\"");
  ASSERT_EQ(header->tensors.size(), 4U);
  EXPECT_EQ(header->tensors[0].name, "a");
  EXPECT_EQ(header->tensors[0].shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(header->tensors[1].shape, std::vector<std::int64_t>{});
  EXPECT_EQ(header->tensors[1].begin, 24U);
  EXPECT_EQ(header->tensors[3].end, 40U);
}

TEST_F(SafetensorsTest, EqualNamesAreRefusedWhenWritten) {
  std::vector<TensorEntry> tensors = {{"a", "F32", {1}}, {"a", "F32", {1}}};
  EXPECT_THROW(make_safetensors_header(tensors, {}), Failure);
}

TEST_F(SafetensorsTest, MalformedHeaders) {
  const auto entry = [](const std::string& body) { return file_of("{\"a\":" + body + "}", 8); };
  expect_mentions(error_of(""), {"0 bytes"});
  expect_mentions(error_of(length_word(~std::uint64_t{0}) + "{}"), {"impossible"});
  expect_mentions(error_of(length_word(100) + "{}"), {"ends inside its header"});
  expect_mentions(error_of(file_of("hello", 0)), {"not JSON"});
  expect_mentions(error_of(file_of("[]", 0)), {"not a JSON object"});
  expect_mentions(error_of(file_of(std::string(100000, '['), 0)), {"not JSON"});
  expect_mentions(error_of(file_of("{}", 4)), {"0 bytes", "4"});
  expect_mentions(error_of(file_of("{\"__metadata__\":{\"a\":1}}", 0)), {"__metadata__"});
  expect_mentions(error_of(entry("5")), {"'a' is malformed"});
  expect_mentions(error_of(entry(R"({"dtype":"F32","shape":[2]})")), {"'a' is malformed"});
  expect_mentions(error_of(entry(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})")),
                  {"'a' is malformed"});
  expect_mentions(error_of(entry(R"({"dtype":"F32","shape":[2.5],"data_offsets":[0,8]})")),
                  {"'a' is malformed"});
  expect_mentions(
      error_of(entry(R"({"dtype":"F32","shape":[2],"data_offsets":[0,18446744073709551615]})")),
      {"malformed"});
  expect_mentions(error_of(entry(R"({"dtype":"Q4","shape":[2],"data_offsets":[0,8]})")),
                  {"unknown type 'Q4'"});
  expect_mentions(error_of(entry(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})")),
                  {"12 bytes of its shape"});
  expect_mentions(error_of(entry(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})")),
                  {"bytes of its shape"});
  expect_mentions(
      error_of(entry(R"({"dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,8]})")),
      {"impossible shape"});
  expect_mentions(error_of(entry(R"({"dtype":"F32","shape":[2],"data_offsets":[8,16]})")),
                  {"do not follow"});
  expect_mentions(error_of(file_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                                   R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
                                   6)),
                  {"'b'", "do not follow"});
  expect_mentions(error_of(file_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                                   R"("a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
                                   4)),
                  {"twice"});
}

TEST_F(SafetensorsTest, TruncatedAnywhere) {
  const std::string whole = good_file();
  for (std::size_t keep = 0; keep < whole.size(); ++keep) error_of(whole.substr(0, keep));
  error_of(whole + "x");
}

// Whatever the bytes: an error, or a header that keeps every promise of read_safetensors_header().
TEST_F(SafetensorsTest, RandomFlipsNeverCrash) {
  const std::string whole = good_file();
  const std::size_t header_end = whole.size() - 40;
  SeededRandom random(2);
  int refused = 0;
  for (int i = 0; i < 1500; ++i) {
    std::string damaged = whole;
    for (std::uint64_t flips = 1 + random.below(4); flips > 0; --flips) {
      damaged[random.below(header_end)] = static_cast<char>(random.below(256));
    }
    const Result<SafetensorsHeader> header =
        read_safetensors_header(write("t.safetensors", damaged));
    if (!header) {
      ++refused;
      continue;
    }
    std::uint64_t at = 0;
    for (const TensorEntry& tensor : header->tensors) {
      std::uint64_t bytes = dtype_bytes(tensor.dtype);
      for (const std::int64_t extent : tensor.shape) bytes *= static_cast<std::uint64_t>(extent);
      ASSERT_EQ(tensor.begin, at);
      ASSERT_EQ(tensor.end - tensor.begin, bytes);
      at = tensor.end;
    }
    ASSERT_EQ(header->data_begin + at, damaged.size());
  }
  EXPECT_GT(refused, 900);
}

} // namespace checkpoint_safetensors_test
} // namespace assay
