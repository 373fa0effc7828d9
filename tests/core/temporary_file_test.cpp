#include "core/files/temporary_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>

#include "core/files/atomic_file.h"
#include "core/result.h"
#include "tests/names.h"
#include "tests/scratch.h"

namespace assay {
namespace temporary_file_test {

namespace fs = std::filesystem;

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::ptrdiff_t files_in(const std::string& directory) {
  return std::distance(fs::directory_iterator(directory), {});
}

TEST(TemporaryFile, TwoWritersOfOneNameDoNotMeet) {
  const test::Scratch scratch;
  const std::string target = scratch.write("d.txt", "old");
  TemporaryFile a(target), b(target);
  ASSERT_EQ(a.error(), 0);
  ASSERT_EQ(b.error(), 0);
  EXPECT_NE(a.path(), b.path());
  ASSERT_EQ(::write(a.descriptor(), "a", 1), 1);
  ASSERT_EQ(::write(b.descriptor(), "bb", 2), 2);
  EXPECT_EQ(a.place(true), 0);
  EXPECT_EQ(text_of(target), "a");
  EXPECT_EQ(b.place(false), 0);
  EXPECT_EQ(text_of(target), "bb");
}

TEST(TemporaryFile, WhatWasNotPlacedIsRemoved) {
  const test::Scratch scratch;
  const std::string target = scratch.write("d.txt", "old");
  const std::ptrdiff_t before = files_in(fs::path(target).parent_path());
  std::optional<TemporaryFile> file(target);
  EXPECT_EQ(files_in(fs::path(target).parent_path()), before + 1);
  file.reset();
  EXPECT_EQ(files_in(fs::path(target).parent_path()), before);
  EXPECT_EQ(text_of(target), "old");
}

// A dead writer holds no lock any more; a living one keeps its file.
TEST(TemporaryFile, SweepsWhatDeadWritersLeft) {
  const test::Scratch scratch;
  const std::string target = scratch / "d.txt";
  scratch.write(".d.txt.0123456789abcdef.partial", "half");
  scratch.write(".d.txt.0123456789abcdef.partial-journal", "of a database");
  const TemporaryFile living(target);
  EXPECT_FALSE(fs::exists(scratch / ".d.txt.0123456789abcdef.partial"));
  EXPECT_FALSE(fs::exists(scratch / ".d.txt.0123456789abcdef.partial-journal"));
  const TemporaryFile other(target);
  EXPECT_TRUE(fs::exists(living.path()));
}

TEST(TemporaryFile, ADirectoryThatIsNotThereIsAnError) {
  const TemporaryFile file("/nonexistent/x");
  EXPECT_EQ(file.error(), ENOENT);
}

std::string message_beyond_limit(const std::string& target) {
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{4, before.rlim_max}; // bytes
  setrlimit(RLIMIT_FSIZE, &limit);
  std::string message;
  try {
    write_file_atomically(target, "longer than the limit");
  } catch (const Failure& failure) {
    message = failure.what();
  }
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  return message;
}

TEST(AtomicFile, APreviousFileIsNamedWhereThereIsOne) {
  const test::Scratch scratch;
  const std::string old = scratch.write("old.txt", "old");
  EXPECT_THAT(message_beyond_limit(old), test::names("old.txt", "previous file is unchanged"));
  EXPECT_EQ(text_of(old), "old");
  const std::string message = message_beyond_limit(scratch / "new.txt");
  EXPECT_THAT(message, test::names("new.txt", "free space"));
  EXPECT_THAT(message, testing::Not(testing::HasSubstr("previous")));
}

} // namespace temporary_file_test
} // namespace assay
