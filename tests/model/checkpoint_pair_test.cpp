// Checkpoints: bit-exact round trips, overwriting without a torn pair, and one error for every kind
// of damage.
#include "model/training/checkpoint.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "tests/model/data/data_fixture.h"
#include "tests/paths.h"

namespace assay {
namespace checkpoint_pair_test {

NamedTensors sample_tensors(double shift = 0) {
  at::Tensor special = at::arange(4, at::kFloat);
  special[0] = std::numeric_limits<float>::quiet_NaN();
  special[1] = -std::numeric_limits<float>::infinity();
  special[2] = -0.0F;
  const at::Tensor base = at::arange(12, at::kFloat).reshape({3, 4}) + shift;
  return {{"model.weight", base.t()}, // not contiguous
          {"special", special},
          {"bf16", base.to(at::kBFloat16)},
          {"fp16", base.to(at::kHalf)},
          {"fp64", base.to(at::kDouble)},
          {"steps", at::arange(5, at::kLong) - 2},
          {"ints", at::arange(3, at::kInt)},
          {"state", at::arange(7, at::kByte)},
          {"flag", at::ones({2}, at::kBool)},
          {"scalar", at::scalar_tensor(3.5, at::kFloat)},
          {"empty", at::empty({0, 4}, at::kFloat)}};
}

CheckpointMeta sample_meta(std::int64_t step = 300) {
  CheckpointMeta meta;
  meta.config.lr = 0.1234567890123;
  meta.config.seed = 0xfedcba9876543210ULL;
  meta.config.data = "some/dir \"quoted\"";
  meta.config.attention = Attention::Packed;
  meta.step = step;
  meta.data = {2, 17, 12345};
  meta.rng = std::string("\x00\xff\x10 state", 9);
  meta.tokenizer = "bytes";
  meta.corpus = "0123456789abcdef";
  return meta;
}

void expect_same_bytes(const NamedTensors& a, const NamedTensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].first, b[i].first);
    EXPECT_EQ(a[i].second.scalar_type(), b[i].second.scalar_type());
    ASSERT_EQ(a[i].second.sizes(), b[i].second.sizes());
    const at::Tensor x = a[i].second.contiguous();
    const at::Tensor y = b[i].second.contiguous();
    if (x.nbytes() == 0) continue;
    EXPECT_EQ(std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()), 0) << a[i].first;
  }
}

std::string load_error(const std::string& path) {
  const Result<Checkpoint> loaded = load_checkpoint(path);
  if (loaded) {
    ADD_FAILURE() << path << " was loaded";
    return "";
  }
  return loaded.error().message;
}

class CheckpointTest : public DataTest {
protected:
  std::string save(const std::string& name, std::int64_t step = 300, double shift = 0) const {
    return save_checkpoint(path(name), sample_meta(step), sample_tensors(shift));
  }
};

TEST_F(CheckpointTest, RoundTripIsBitExact) {
  const std::string json = save("run/");
  EXPECT_EQ(json, path("run/checkpoint-00000300.json"));
  const Result<Checkpoint> loaded = load_checkpoint(path("run"));
  ASSERT_TRUE(loaded) << loaded.error().message;
  expect_same_bytes(loaded->tensors, sample_tensors());
  const CheckpointMeta expected = sample_meta();
  EXPECT_EQ(to_json(loaded->meta.config), to_json(expected.config));
  EXPECT_EQ(loaded->meta.step, 300);
  EXPECT_EQ(loaded->meta.data, expected.data);
  EXPECT_EQ(loaded->meta.rng, expected.rng);
  EXPECT_EQ(loaded->meta.tokenizer, "bytes");
  EXPECT_EQ(loaded->meta.corpus, expected.corpus);
  ASSERT_NE(loaded->find("scalar"), nullptr);
  EXPECT_EQ(loaded->find("scalar")->item<float>(), 3.5F);
  EXPECT_EQ(loaded->find("absent"), nullptr);
}

// Skipped where Python does not have it.
TEST_F(CheckpointTest, OpensWithPythonsSafetensors) {
  const std::string json = save("run/");
  const std::string script = test::source_dir() + "/tests/scripts/train/safetensors_roundtrip.py";
  const std::string command =
      "python3 '" + script + "' '" + json + "' scalar=3.5 model.weight=0 > /dev/null";
  const int status = std::system(command.c_str());
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "Python has no safetensors";
  EXPECT_EQ(WEXITSTATUS(status), 0) << command;
}

TEST_F(CheckpointTest, EveryWayToNameIt) {
  save("run/", 5);
  save("run/", 300);
  save("run/", 40);
  for (const std::string name : {"run",
                                 "run/",
                                 "run/checkpoint-00000300",
                                 "run/checkpoint-00000300.json",
                                 "run/checkpoint-00000300.safetensors"}) {
    const Result<Checkpoint> loaded = load_checkpoint(path(name));
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_EQ(loaded->meta.step, 300) << name;
  }
  EXPECT_EQ(save("other/file.safetensors"), path("other/file.json"));
}

TEST_F(CheckpointTest, OverwritingAlternatesNamesAndLeavesOnePair) {
  for (int i = 0; i < 4; ++i) {
    save("last", 10 + i, i);
    const std::string tensors = i % 2 == 0 ? "last.safetensors" : "last.b.safetensors";
    EXPECT_EQ(listing(),
              (std::vector<std::string>{i % 2 == 0 ? "last.json" : "last.b.safetensors",
                                        i % 2 == 0 ? "last.safetensors" : "last.json"}));
    const Result<Checkpoint> loaded = load_checkpoint(path(tensors));
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_EQ(loaded->meta.step, 10 + i);
    expect_same_bytes(loaded->tensors, sample_tensors(i));
  }
}

// A writer killed at any instant leaves partial files, or new tensors without their JSON: the old
// pair must load.
TEST_F(CheckpointTest, InterruptedOverwriteKeepsTheOldPair) {
  save("last", 1);
  write("last.b.safetensors", "half a file");
  write(".last.json.partial", "{");
  const Result<Checkpoint> loaded = load_checkpoint(path("last"));
  ASSERT_TRUE(loaded) << loaded.error().message;
  expect_same_bytes(loaded->tensors, sample_tensors());
  save("last", 2, 1);
  EXPECT_EQ(listing(), (std::vector<std::string>{"last.b.safetensors", "last.json"}));
  EXPECT_TRUE(load_checkpoint(path("last")));
}

TEST_F(CheckpointTest, ForeignFilesAreNotOverwritten) {
  write("config.json", "{\"mine\": 1}");
  expect_mentions(bad_input_message([&] { save("config"); }),
                  {path("config.json"), "not a checkpoint"});
  EXPECT_EQ(contents(path("config.json")), "{\"mine\": 1}");
}

TEST_F(CheckpointTest, DirectoryThatCannotBeMade) {
  write("file", "x");
  expect_mentions(bad_input_message([&] { save("file/sub/last"); }),
                  {path("file/sub"), "cannot be made"});
}

class FileSizeLimit {
public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit{bytes, old_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, handler_);
  }

private:
  rlimit old_{};
  void (*handler_)(int);
};

TEST_F(CheckpointTest, WriteThatFailsLeavesThePreviousCheckpoint) {
  save("last", 1);
  const std::vector<std::string> before = listing();
  for (const rlim_t bytes : {rlim_t{0}, rlim_t{500}, rlim_t{1300}}) {
    std::string message;
    {
      const FileSizeLimit limit(bytes);
      message = bad_input_message([&] { save("last", 2, 1); });
    }
    expect_mentions(message, {path("last."), "could not be written", "free space"});
    const Result<Checkpoint> loaded = load_checkpoint(path("last"));
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_EQ(loaded->meta.step, 1);
  }
  EXPECT_GE(listing().size(), before.size());
}

TEST_F(CheckpointTest, FullDisk) {
  const std::string disk = path("disk");
  std::filesystem::create_directories(disk);
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=64k") != 0)
    GTEST_SKIP() << "needs the right to mount a tmpfs";
  const std::string saved = save("disk/last", 1);
  const NamedTensors big = {{"big", at::zeros({40000}, at::kFloat)}};
  const std::string message =
      bad_input_message([&] { save_checkpoint(path("disk/last"), sample_meta(2), big); });
  const Result<Checkpoint> kept = load_checkpoint(saved);
  EXPECT_TRUE(kept);
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(disk))
    names.push_back(entry.path().filename().string());
  ::umount(disk.c_str());
  expect_mentions(message, {"disk/last.b.safetensors", "No space left", "free space"});
  EXPECT_EQ(names.size(), 2U);
}

class CheckpointErrorTest : public CheckpointTest {
protected:
  CheckpointErrorTest() : json_(save("a")), tensors_(path("a.safetensors")) {}

  void edit(const std::function<void(nlohmann::json&)>& change) const {
    nlohmann::json json = nlohmann::json::parse(contents(json_));
    change(json);
    write("a.json", json.dump());
  }

  std::string json_;
  std::string tensors_;
};

TEST_F(CheckpointErrorTest, MissingAndForeign) {
  expect_mentions(load_error(path("none")), {path("none"), "does not exist"});
  write("empty/readme.json", "{}");
  expect_mentions(load_error(path("empty")), {path("empty"), "contains no checkpoint"});
  expect_mentions(load_error(path("empty/readme.json")),
                  {"readme.json", "not a checkpoint of Assay"});
  expect_mentions(load_error(write("list.json", "[1]")),
                  {"list.json", "not a checkpoint of Assay"});
  write("lonely.safetensors", "x");
  expect_mentions(load_error(path("lonely.safetensors")),
                  {"lonely.safetensors", "has no", "lonely.json"});
  std::filesystem::remove(tensors_);
  expect_mentions(load_error(json_), {tensors_, "cannot be read"});
}

TEST_F(CheckpointErrorTest, JsonOfAnotherKind) {
  edit([](auto& json) { json["version"] = 2; });
  expect_mentions(load_error(json_), {json_, "version 2, newer", "newer Assay"});
  edit([](auto& json) { json["version"] = 1, json["config"]["no_such_key"] = 1; });
  expect_mentions(load_error(json_), {json_, "no_such_key"});
  edit([](auto& json) { json["config"].erase("no_such_key"), json["rng"] = "abc"; });
  expect_mentions(load_error(json_), {json_, "hexadecimal"});
  edit([](auto& json) { json["rng"] = "00", json["tensors"]["file"] = "../a.safetensors"; });
  expect_mentions(load_error(json_), {json_, "does not name a file"});
  edit([](auto& json) { json.erase("step"); });
  expect_mentions(load_error(json_), {json_, "damaged or truncated: key 'step' not found"});
  std::ofstream(json_) << "{\"step\": ";
  expect_mentions(load_error(json_), {json_, "damaged or truncated: malformed JSON at byte 10"});
  std::ofstream(json_, std::ios::trunc).flush();
  expect_mentions(load_error(json_), {json_, "damaged or truncated: the file is empty"});
}

TEST_F(CheckpointErrorTest, MismatchingTensors) {
  edit([](auto& json) { json["tensors"]["size"] = 12; });
  expect_mentions(load_error(json_), {tensors_, "12", "another checkpoint"});
  save("a", 300); // now a.b.safetensors
  save("b", 300, 1);
  std::filesystem::rename(path("b.safetensors"), path("a.b.safetensors"));
  expect_mentions(load_error(path("a")), {"a.b.safetensors", "CRC-32"});
}

TEST_F(CheckpointErrorTest, TheOneBeforeItIsNamed) {
  std::filesystem::create_directory(path("run"));
  for (const std::int64_t step : {10, 20, 30})
    save(fmt::format("run/checkpoint-{:08}", step), step);
  const std::string newest = path("run/checkpoint-00000030");
  std::filesystem::resize_file(newest + ".safetensors", 100);
  expect_mentions(load_error(path("run")),
                  {"truncated", "'" + path("run/checkpoint-00000020.json")});
  write("run/checkpoint-00000030.json", "{");
  expect_mentions(load_error(path("run")), {"damaged", "'" + path("run/checkpoint-00000020.json")});
  std::filesystem::resize_file(tensors_, 100);
  EXPECT_EQ(load_error(json_).find("older"), std::string::npos);
}

TEST_F(CheckpointErrorTest, TruncatedJsonIsOneError) {
  const std::string whole = contents(json_);
  for (std::size_t keep = 0; keep + 2 < whole.size(); keep += 13) {
    write("a.json", std::string_view(whole).substr(0, keep));
    expect_mentions(load_error(json_), {json_});
  }
}

TEST_F(CheckpointErrorTest, TruncatedTensorsAreOneError) {
  const std::string whole = contents(tensors_);
  for (std::size_t keep = 0; keep < whole.size(); keep += 97) {
    write("a.safetensors", std::string_view(whole).substr(0, keep));
    expect_mentions(load_error(json_), {tensors_, "truncated"});
  }
}

TEST_F(CheckpointErrorTest, AnyFlippedBitIsFound) {
  const std::string whole = contents(tensors_);
  for (std::size_t at = 0; at < whole.size(); at += 3) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << (at % 8)));
    write("a.safetensors", damaged);
    expect_mentions(load_error(json_), {tensors_});
  }
}

} // namespace checkpoint_pair_test
} // namespace assay
