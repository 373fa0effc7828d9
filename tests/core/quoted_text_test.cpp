#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <limits>
#include <memory>
#include <string>

#include "core/files/shell_text.h"
#include "core/files/toml_text.h"
#include "core/text.h"

namespace assay {
namespace quoted_text_test {

constexpr const char* kOdd[] = {"",
                                "plain",
                                "two words",
                                "it's",
                                "a\"b",
                                "$HOME",
                                "a;b",
                                "a&b",
                                "(x)",
                                "~",
                                "#x",
                                "line\nline",
                                "back\\slash",
                                "*",
                                "`id`",
                                "!x",
                                "a'b\"c",
                                "ä ö",
                                "{a,b}"};

std::string read_back_by_a_shell(const std::string& word) {
  const std::string command = "printf %s " + word;
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::array<char, 256> buffer{};
  return {buffer.data(), std::fread(buffer.data(), 1, buffer.size(), pipe.get())};
}

TEST(ShellWord, IsReadBackByAShell) {
  for (const char* text : kOdd) EXPECT_EQ(read_back_by_a_shell(shell_word(text)), text) << text;
}

TEST(ShellWords, ReadsBackWhatShellWordWrote) {
  for (const char* text : kOdd) {
    const std::vector<std::string> words{"assay", text, "--out"};
    EXPECT_EQ(shell_words("assay " + shell_word(text) + " --out"), words);
    EXPECT_EQ(shell_words(shell_line(words)), words);
  }
}

TEST(ShellWord, LeavesPlainPathsAlone) {
  EXPECT_EQ(shell_word("results/mine-1.0_x"), "results/mine-1.0_x");
  EXPECT_EQ(shell_word("base.seq_len=64"), "base.seq_len=64");
  EXPECT_EQ(shell_word("t x"), "'t x'");
}

TEST(TomlString, EscapesWhatABasicStringCannotContain) {
  EXPECT_EQ(toml_string("it's\\q"), R"("it's\\q")");
  EXPECT_EQ(toml_string("a'b\"c"), R"("a'b\"c")");
  EXPECT_EQ(toml_string("n\nl\x7F"), R"("n\u000Al\u007F")");
  EXPECT_EQ(toml_string("ä"), "\"ä\"");
  EXPECT_EQ(toml_float(3), "3.0");
  EXPECT_EQ(toml_float(-0.25), "-0.25");
  EXPECT_EQ(toml_float(1e300), "1e+300");
  EXPECT_EQ(toml_float(std::numeric_limits<double>::quiet_NaN()), "nan");
}

TEST(PathsWithin, PathsInsideADirectoryAreWrittenFromThere) {
  EXPECT_EQ(paths_within("a/r/logs/x: full (see a/r/traces/y, 'a/r/z')", "a/r"),
            "logs/x: full (see traces/y, 'z')");
  EXPECT_EQ(paths_within("/b/a/r/logs/x and a/rest/y", "a/r"), "/b/a/r/logs/x and a/rest/y");
  EXPECT_EQ(paths_within("./logs/x and ../x", "."), "logs/x and ../x");
  EXPECT_EQ(paths_within("r/logs/x", "r/"), "logs/x");
  EXPECT_EQ(paths_within("/x", ""), "/x");
}

} // namespace quoted_text_test
} // namespace assay
