#include "core/files/temporary_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "core/files/atomic_file.h"
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

} // namespace temporary_file_test
} // namespace assay
