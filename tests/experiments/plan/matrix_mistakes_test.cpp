// Mistakes in a matrix file: every one is an error that names its line, never an abort.
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <random>

#include "experiments/plan/matrix/matrix.h"
#include "tests/experiments/plan/matrix_text.h"
#include "tests/names.h"
#include "tests/paths.h"

namespace assay {
namespace matrix_mistakes_test {

using test::matrix_text::kCell;
using test::matrix_text::kHead;
using test::matrix_text::problem;
using testing::HasSubstr;

// Products of them would not fit 64 bits, and 100000 threads never start.
TEST(MatrixMistakes, IntegersBeyondTheirBoundsAreRefusedWithTheirLine) {
  const auto base = [](const std::string& line) {
    return problem(kHead + "[base]\n" + line + "\n" + kCell);
  };
  EXPECT_EQ(base("seq_len = 16777216"), "");
  EXPECT_EQ(base("seq_len = 16777217"),
            "m.toml:5: key 'seq_len' must be at most 16777216, not 16777217");
  EXPECT_EQ(base("seq_len = 1e300"),
            "m.toml:5: key 'seq_len' must be at most 16777216, not 1e+300");
  EXPECT_EQ(base("seq_len = nan"), "m.toml:5: key 'seq_len' takes a whole number, not nan");
  EXPECT_EQ(base("threads = 100000"), "m.toml:5: key 'threads' must be at most 1024, not 100000");
  EXPECT_EQ(base("warmup_steps = -3"), "m.toml:5: key 'warmup_steps' must be at least 0, not -3");
  EXPECT_EQ(base("seed = -1"), "m.toml:5: key 'seed' must be at least 0, not -1");
  EXPECT_EQ(base("ranks = 1000000"), "m.toml:5: key 'ranks' must be at most 1024, not 1000000");
  EXPECT_EQ(problem(kHead + kCell + "set = { batch_rows = -1 }\n"),
            "m.toml:6: key 'batch_rows' must be at least 1, not -1");
  EXPECT_EQ(problem(kHead + kCell, {"base.seq_len=9223372036854775807"}),
            "--set base.seq_len=9223372036854775807: key 'seq_len' must be at most 16777216, not "
            "9223372036854775807");
  for (const char* key : {"experiment.seed", "base.seed"})
    EXPECT_EQ(problem(kHead + kCell, {std::string(key) + "=18446744073709551615"}),
              fmt::format("--set {}: a number goes up to 9223372036854775807, not "
                          "18446744073709551615",
                          key));
}

TEST(MatrixMistakes, TablesInAWrongFormSayHowTheyAreWritten) {
  EXPECT_EQ(problem(kHead + "[cell]\noptimization = \"ema_swap\"\n"),
            "m.toml:4: 'cell' may be there several times: write [[cell]], not [cell]");
  EXPECT_THAT(problem("cell = 3\n" + kHead), HasSubstr("each below a line [[cell]], not 3"));
  EXPECT_THAT(problem(kHead + "[matrix]\noptimizations = [\"varlen\"]\n[matrix.include]\n"),
              HasSubstr("write [[matrix.include]], not [matrix.include]"));
}

TEST(MatrixMistakes, NumbersThatAreNoneAreRefusedWithTheirLine) {
  EXPECT_THAT(problem(kHead + kCell + "[limits]\nsteal = nan\n"),
              test::names("m.toml:7: [limits] steal", ", not nan"));
  EXPECT_THAT(problem(kHead + "[base]\nlr = inf\n[[cell]]\noptimization = \"ema_swap\"\n"),
              HasSubstr("m.toml:5: key 'lr'"));
  EXPECT_THAT(problem(kHead + "[[cell]]\noptimization = \"ema_swap\"\nset = { lr = nan }\n"),
              HasSubstr("m.toml:6: key 'lr'"));
}

TEST(MatrixMistakes, AnUnknownKeyNamesItsLineAndNeighbour) {
  EXPECT_THAT(problem(kHead + "launchs = 3\n" + kCell),
              test::names("m.toml:4:", "'launchs' in [experiment]", "'launches'?"));
  EXPECT_THAT(problem(kHead + "[base]\nseq_length = 3\n" + kCell),
              test::names("m.toml:5:", "key 'seq_length'"));
  EXPECT_THAT(problem(kHead + kCell + "sett = {}\n"),
              test::names("m.toml:6:", "'sett' in [[cell]]", "'set'?"));
  EXPECT_THAT(problem(kHead + kCell + "[measur]\n"), test::names("key 'measur'", "'measure'?"));
  EXPECT_THAT(problem(kHead + kCell + "[trace]\noperators = 3\n"),
              HasSubstr("'operators' in [trace]; known keys are: max_gib, rounds"));
  EXPECT_THAT(problem(kHead + kCell + "[disturbance]\n"),
              HasSubstr("'disturbance' in the matrix; known keys are: base, cell, claims"));
}

TEST(MatrixMistakes, AKeyOfAnotherTableNamesThatTable) {
  EXPECT_THAT(problem(kHead + kCell, {"seq_len=3"}),
              test::names("key 'seq_len'", "'base.seq_len'?"));
  EXPECT_THAT(problem(kHead + kCell, {"sesoi=3"}), HasSubstr("'measure.sesoi'?"));
  EXPECT_THAT(problem(kHead + kCell, {"optimizations=3"}), HasSubstr("'matrix.optimizations'?"));
  EXPECT_THAT(problem(kHead + kCell, {"seed=3"}), HasSubstr("'experiment.seed' or 'base.seed'?"));
  EXPECT_THAT(problem(kHead + kCell, {"measure.launches=3"}),
              test::names("'launches' in [measure]", "'experiment.launches'?"));
  EXPECT_THAT(problem(kHead + kCell, {"base.max_gib=3"}),
              test::names("'max_gib'", "'trace.max_gib'?"));
  EXPECT_THAT(problem(kHead + "[base]\nlr = inf\n" + kCell), HasSubstr("key 'lr'"));
}

// In plain words, with line and column: toml++'s own are about its parser.
TEST(MatrixMistakes, AMistakeInTomlSaysWhatToWrite) {
  const auto of_line = [](const std::string& line) {
    return problem("version = 1\n[base]\n" + line);
  };
  EXPECT_THAT(of_line("data = corpus\n"), test::names("m.toml:3:8:", "in quotes"));
  EXPECT_THAT(of_line("data = \"corpus\n"), HasSubstr("closing quote"));
  EXPECT_THAT(of_line("lr = 1\nlr = 2\n"), HasSubstr("m.toml:4:"));
  EXPECT_THAT(of_line("a = 1\na.b = 2\n"), test::names("written twice"));
  EXPECT_THAT(of_line("lr = 1\nlr = 2\n"), test::names("'lr'", "written twice"));
  EXPECT_THAT(of_line("[base]\n"), test::names("'base'", "written twice"));
  EXPECT_THAT(of_line("seq_len: 3\n"), HasSubstr("followed by ="));
  EXPECT_THAT(of_line("seq_len =\n"), HasSubstr("value is missing"));
  EXPECT_THAT(of_line("[cell\n"), HasSubstr("closing bracket"));
  EXPECT_THAT(of_line("x = True\n"), HasSubstr("small letters"));
  EXPECT_THAT(of_line("x = FALSE\n"), HasSubstr("small letters"));
  for (const char* word : {"tiny", "fp32", "ten", "fast", "10m", "1%", "base", "inf10"})
    EXPECT_THAT(of_line(fmt::format("x = {}\n", word)), HasSubstr("in quotes")) << word;
  EXPECT_THAT(of_line("[cell]\n[cell]\n"), test::names("m.toml:4:", "double brackets"));
  EXPECT_THAT(of_line("set = {\n  b = 1\n}\n"), test::names("on one line", "[name]"));
  for (const char* more : {"x = 1,000\n", "x = \"a\",\n", "x = 1 // note\n"})
    EXPECT_THAT(of_line(more), HasSubstr("begins with #")) << more;
  EXPECT_THAT(of_line("a = { b = 1 c = 2 }\n"), HasSubstr("commas"));
  EXPECT_THAT(of_line("a = { b = 1, }\n"), HasSubstr("remove the comma"));
  EXPECT_THAT(of_line("a = { b c }\n"), HasSubstr("followed by ="));
  EXPECT_THAT(of_line("a = 0o9\n"), HasSubstr("after 0o"));
  EXPECT_THAT(of_line("a = 0xg\n"), HasSubstr("after 0x"));
  EXPECT_THAT(of_line("a = 0b2\n"), HasSubstr("after 0b"));
  EXPECT_THAT(of_line("a = inff\n"), HasSubstr("in quotes"));
  EXPECT_THAT(of_line("a = 1e\n"), HasSubstr("1e-3"));
  EXPECT_THAT(of_line("a = 1__0\n"), HasSubstr("underscore"));
  EXPECT_THAT(of_line("a = truely\n"), HasSubstr("in quotes"));
  EXPECT_THAT(of_line("a = \"\\q\"\n"), HasSubstr("backslash"));
  for (const char* line : {"a = 1 2\n",
                           "a = [1 2]\n",
                           "a = [1, , 2]\n",
                           "a = 2024-13-45\n",
                           "a = 25:00:00\n",
                           "a = \"\\q\"\n",
                           "a = \"\\ud800\"\n",
                           "a = 'b\n",
                           "= 3\n",
                           "a.. = 3\n",
                           "a = 1.\n",
                           "a = .5\n",
                           "a = +-1\n",
                           "[a]]\n",
                           "[]\n",
                           "a = tru\n",
                           "a = 0x\n",
                           "a = {,}\n"}) {
    EXPECT_THAT(of_line(line), HasSubstr("m.toml:3:")) << line;
    for (const char* parsers : {"Error while", "parsing", "saw ", "expected "})
      EXPECT_THAT(of_line(line), testing::Not(HasSubstr(parsers))) << line;
  }
}

TEST(MatrixMistakes, AWrongTypeNamesItsLine) {
  EXPECT_THAT(problem(kHead + "launches = \"3\"\n" + kCell),
              HasSubstr("m.toml:4: [experiment] launches"));
  EXPECT_THAT(problem(kHead + "launches = 0\n" + kCell), HasSubstr("m.toml:4"));
  EXPECT_THAT(problem(kHead + "[base]\nseq_len = \"long\"\n" + kCell),
              HasSubstr("m.toml:5: key 'seq_len'"));
  EXPECT_THAT(problem(kHead + "[measure]\nsesoi = \"5\"\n" + kCell),
              HasSubstr("m.toml:5: [measure] sesoi"));
  EXPECT_THAT(problem(kHead + "cell = 3\n"), HasSubstr("m.toml:4"));
  EXPECT_THAT(problem(kHead + "budget = \"soon\"\n" + kCell),
              test::names("m.toml:4:", "[experiment] budget: 'soon'"));
  EXPECT_THAT(problem(kHead + "budget = 0\n" + kCell),
              test::names("m.toml:4:", "[experiment] budget", "\"10m\""));
}

// A cell takes its optimization's name where it has none; what is wrong with that is said once.
TEST(MatrixMistakes, AWrongOptimizationIsOneMistake) {
  const auto cell = [](const std::string& line) { return problem(kHead + "[[cell]]\n" + line); };
  EXPECT_EQ(cell("optimization = \"\"\n"),
            "m.toml:5: [[cell]] optimization takes a name of `assay list`, not \"\"");
  EXPECT_EQ(cell("optimization = 5\n"), "m.toml:5: [[cell]] optimization takes a string, not 5");
  EXPECT_EQ(cell("name = 5\noptimization = \"varlen\"\n"),
            "m.toml:5: [[cell]] name takes a string, not 5");
  EXPECT_EQ(problem(kHead + "[matrix]\noptimizations = [\"\", \"varlen\"]\n"),
            "m.toml:5: [matrix] optimizations takes names of `assay list`, not \"\"");
}

TEST(MatrixMistakes, ReportsEveryProblemAtOnce) {
  const std::string text =
      problem(kHead + "launches = -1\n[base]\nnope = 1\n" + kCell + "rounds = 0\n");
  EXPECT_THAT(text, HasSubstr("m.toml:4:"));
  EXPECT_THAT(text, HasSubstr("m.toml:6:"));
  EXPECT_THAT(text, HasSubstr("m.toml:9:"));
}

TEST(MatrixMistakes, SyntaxErrorsVersionsAndEmptiness) {
  EXPECT_THAT(problem("version = \n"), HasSubstr("m.toml:1:"));
  EXPECT_THAT(problem("[experiment]\nname = \"t\"\n" + kCell), test::names("lacks", "'version'"));
  EXPECT_THAT(problem("version = 2\n[experiment]\nname = \"t\"\n" + kCell),
              test::names("m.toml:1:", "takes 1, not 2"));
  EXPECT_THAT(problem(kHead), HasSubstr("asks for nothing"));
  EXPECT_THAT(problem("version = 1\n" + kCell), test::names("lacks", "'experiment'"));
}

// toml++ would end the program here.
TEST(MatrixMistakes, ATypingMistakeIsAnErrorWithItsLine) {
  for (const char* mistake :
       {"[\n", "[.a]\n", "[[[", "[\xc7\x9c", "\xc3\xa9 = 1\n", "a \xc3\xa9"}) {
    const std::string text = std::string("version = 1\n\n") + mistake;
    const auto matrix = parse_matrix(text, "m.toml");
    ASSERT_FALSE(matrix) << mistake;
    EXPECT_TRUE(matrix.error().message.starts_with("m.toml:3:")) << matrix.error().message;
  }
  EXPECT_FALSE(parse_matrix("version = 1\n", "m.toml", {"base.x=[.a]"}));
}

// Any file of bytes is a matrix or a message that names the file.
TEST(MatrixMistakes, MutatedFilesNeverEndTheProgram) {
  std::ifstream file(test::source_dir() + "/experiments/matrices/quickstart.toml");
  const std::string good((std::istreambuf_iterator<char>(file)), {});
  ASSERT_FALSE(good.empty());
  std::mt19937 random(1);
  const std::string_view pieces = "[]=.\"'#{}\n\t,-+_ a0\xc7\x9c";
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string text = good;
    for (unsigned change = 0; change <= random() % 3; ++change) {
      const std::size_t at = random() % text.size();
      const char c = pieces[random() % pieces.size()];
      switch (random() % 4) {
      case 0:
        text[at] = c;
        break;
      case 1:
        text.insert(at, 1, c);
        break;
      case 2:
        text.erase(at, 1 + random() % 8);
        break;
      default:
        text.resize(at + 1);
        text += c;
      }
    }
    if (const auto matrix = parse_matrix(text, "m.toml"); !matrix) {
      ++refused;
      EXPECT_THAT(matrix.error().message, HasSubstr("m.toml")) << text;
    }
  }
  EXPECT_GT(refused, 300);
}

} // namespace matrix_mistakes_test
} // namespace assay
