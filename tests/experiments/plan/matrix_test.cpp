#include "experiments/plan/matrix/matrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>

#include "tests/experiments/plan/matrix_text.h"
#include "tests/names.h"
#include "tests/paths.h"

namespace assay {
namespace matrix_test {

using test::matrix_text::kCell;
using test::matrix_text::kHead;
using test::matrix_text::problem;
using testing::HasSubstr;

TEST(Matrix, ReadsACell) {
  const Matrix matrix = value_or_throw(parse_matrix(kHead + R"(seed = 9
launches = 3
budget = "1h30m"
[base]
lr = 1
[measure]
sesoi = "0.5%"
alpha = 0.1
interleave = "twin"
[[cell]]
name = "a/b"
optimization = "ema_swap"
levels = ["exchange"]
set = { eval_batches = 1 }
rounds = 12
visit_steps = 4
discard_steps = 1
launches = 7
[claims]
files = ["x.toml"]
)",
                                                    "m.toml"));
  EXPECT_EQ(matrix.seed, 9u);
  EXPECT_EQ(matrix.launches, 3);
  EXPECT_DOUBLE_EQ(*matrix.budget_seconds, 5400);
  EXPECT_DOUBLE_EQ(*matrix.sesoi, 0.005);
  EXPECT_DOUBLE_EQ(matrix.alpha, 0.1);
  ASSERT_EQ(matrix.cells.size(), 1u);
  const MatrixCell& cell = matrix.cells[0];
  EXPECT_EQ(cell.name, "a/b");
  EXPECT_EQ(cell.levels, std::vector<std::string>{"exchange"});
  EXPECT_EQ(cell.set.at(0).key, "eval_batches");
  EXPECT_EQ(cell.rounds, 12);
  EXPECT_EQ(cell.visit_steps, 4);
  EXPECT_EQ(cell.discard_steps, 1);
  EXPECT_EQ(cell.launches, 7);
  EXPECT_EQ(matrix.claim_files, std::vector<std::string>{"x.toml"});
}

TEST(Matrix, ATableOfClaimsWithoutFilesAsksForNone) {
  const std::string cell = "version = 1\n[experiment]\nname = \"e\"\n[[cell]]\n"
                           "optimization = \"varlen\"\n";
  for (const char* claims : {"", "[claims]\n", "[claims]\nfiles = []\n"})
    EXPECT_TRUE(value_or_throw(parse_matrix(cell + claims, "m.toml")).claim_files.empty())
        << claims;
}

TEST(Matrix, ErrorRatesThatDecideNothingAreRefused) {
  const auto measure = [](const std::string& line) {
    return problem(kHead + "[[cell]]\noptimization = \"ema_swap\"\n[measure]\n" + line + "\n");
  };
  for (const char* line : {"alpha = 0.2", "alpha = 0.001", "power = 0.51", "power = \"95%\""})
    EXPECT_EQ(measure(line), "") << line;
  EXPECT_THAT(measure("alpha = 0.9"), HasSubstr("[measure] alpha"));
  EXPECT_THAT(measure("power = 0.5"), HasSubstr("[measure] power"));
  EXPECT_THAT(measure("power = 1.0"), HasSubstr("[measure] power"));
  for (const char* alpha :
       {"0", "0.0", "1e-18", "0.9999", "nan", "1"}) // both bounds, whichever is broken
    EXPECT_THAT(measure(fmt::format("alpha = {}", alpha)),
                test::names("a share above 0.0001 and at most 0.2",
                            fmt::format(", not {}", std::string(alpha) == "0.0" ? "0" : alpha)));
  EXPECT_THAT(measure("power = 0.5"), HasSubstr("a share above 0.5 and below 1"));
}

TEST(Matrix, AnEmptyKeyIsUnknownEverywhere) {
  EXPECT_THAT(problem(kHead + "[base]\n\"\" = 1\n[[cell]]\noptimization = \"ema_swap\"\n"),
              test::names("m.toml:5:", "unknown key ''"));
  EXPECT_THAT(problem(kHead + "[[cell]]\noptimization = \"ema_swap\"\nset = { \"\" = 3 }\n"),
              test::names("m.toml:6:", "unknown key ''"));
}

TEST(Matrix, NamesThatATableCannotShowAndLevelsTwiceAreRefused) {
  const auto cell = [](const std::string& line) {
    return problem(kHead + "[[cell]]\noptimization = \"ema_swap\"\n" + line + "\n");
  };
  EXPECT_EQ(cell("name = \"a b/c\""), "");
  EXPECT_THAT(cell("name = \"\""), test::names("m.toml:6:", "[[cell]] name"));
  EXPECT_THAT(cell("name = \"a  b\""), test::names("m.toml:6:", "\"a  b\""));
  for (const auto& [name, unseen] : std::map<std::string, std::string>{{"a\\nb", "U+000A"},
                                                                       {"a\u200Bb", "U+200B"},
                                                                       {"\uFEFFa", "U+FEFF"},
                                                                       {"a\u00A0b", "U+00A0"},
                                                                       {"a\u202Eb", "U+202E"},
                                                                       {"a\u00ADb", "U+00AD"}})
    EXPECT_THAT(cell(fmt::format("name = \"{}\"", name)), test::names("m.toml:6:", unseen));
  EXPECT_EQ(cell("name = \"größer 比较\""), "");
  EXPECT_THAT(cell("name = \"disturbed\""), HasSubstr("--redo"));
  EXPECT_THAT(
      problem(kHead + "[matrix]\noptimizations = [\"varlen\"]\naxes = { data = [\"a  b\"] }\n"),
      test::names("[matrix]", "a  b"));
  EXPECT_THAT(cell("levels = [\"exchange\", \"pointer_swap\", \"exchange\"]"),
              test::names("[[cell]] levels", "'exchange'"));
}

TEST(Matrix, AnExperimentIsNamedAsACellIs) {
  const auto named = [](const std::string& name) {
    return problem("version = 1\n[experiment]\nname = \"" + name + "\"\n" + kCell);
  };
  EXPECT_EQ(named("rotary, first try"), "");
  EXPECT_EQ(named("disturbed"), "");
  for (const char* name : {"", "   ", " x", "a\\nb", "a  b"})
    EXPECT_THAT(named(name), HasSubstr("m.toml:3: [experiment] name takes ")) << name;
  EXPECT_THAT(problem(kHead + kCell, {"experiment.name="}),
              HasSubstr("--set experiment.name=: [experiment] name takes "));
}

TEST(Matrix, QualityAndTheCellsOwn) {
  const Matrix matrix = value_or_throw(parse_matrix(kHead + R"([[cell]]
optimization = "ema_swap"
[[cell]]
name = "own"
optimization = "ema_swap"
quality = { seeds = 6, margin = 0.1 }
[[cell]]
name = "off"
optimization = "ema_swap"
quality = { seeds = 0 }
[quality]
steps = 60
every = 20
margin = 0.02
)",
                                                    "m.toml"));
  ASSERT_TRUE(matrix.quality);
  EXPECT_EQ(matrix.quality->seeds, 4);
  EXPECT_EQ(matrix.quality->steps, 60);
  EXPECT_EQ(matrix.quality->every, 20);
  EXPECT_DOUBLE_EQ(matrix.quality->margin, 0.02);
  EXPECT_FALSE(matrix.cells[0].quality);
  EXPECT_EQ(matrix.cells[1].quality->seeds, 6);
  EXPECT_EQ(matrix.cells[1].quality->steps, 60);
  EXPECT_DOUBLE_EQ(matrix.cells[1].quality->margin, 0.1);
  EXPECT_EQ(matrix.cells[2].quality->seeds, 0);
  EXPECT_FALSE(value_or_throw(parse_matrix(kHead + kCell, "m.toml")).quality);
}

TEST(Matrix, QualityMistakes) {
  EXPECT_THAT(problem(kHead + kCell + "[quality]\nseeds = 4\n"),
              test::names("m.toml:6: [quality]:", "seeds = 4", "`margin`"));
  EXPECT_THAT(problem(kHead + kCell + "[quality]\nmargn = 0.1\n"),
              test::names("m.toml:7:", "'margn' in [quality]", "'margin'?"));
  EXPECT_THAT(problem(kHead + kCell + "[quality]\nmargin = 0.0\n"),
              HasSubstr("m.toml:7: [quality] margin"));
  EXPECT_THAT(problem(kHead + kCell + "[quality]\nmargin = 0.1\nseeds = -1\n"),
              HasSubstr("m.toml:8: [quality] seeds"));
  EXPECT_THAT(problem(kHead + kCell + "[quality]\nmargin = 0.1\nsteps = 25\n"),
              test::names("m.toml:6: [quality]:", "every = 10", "steps = 25"));
  EXPECT_THAT(problem(kHead + kCell + "quality = { seeds = 4 }\n"),
              test::names("m.toml:6: [[cell]] quality:", "seeds = 4", "`margin`"));
  EXPECT_THAT(problem(kHead + kCell + "quality = false\n"), HasSubstr("m.toml:6"));
  EXPECT_THAT(problem(kHead + kCell, {"quality.seeds=8"}),
              test::names("--set quality.seeds=8: [quality]:", "seeds = 8", "`margin`"));
  EXPECT_EQ(problem(kHead + kCell + "[quality]\nseeds = 0\n"), "");
}

TEST(Matrix, RefusesWhatThisBuildDoesNotKnow) {
  EXPECT_THAT(problem(kHead + kCell + "[toggles.x]\nkey = \"lr\"\n"),
              HasSubstr("unknown key 'toggles'"));
  EXPECT_THAT(problem(kHead + kCell + "[measure]\ninterleave = \"turn\"\n"),
              test::names("m.toml:7", "'turn'", "'turns'"));
  EXPECT_THAT(problem(kHead + "[matrix]\ndesign = \"factorial\"\noptimizations = [\"varlen\"]\n"),
              HasSubstr("design = 'factorial'"));
}

TEST(Matrix, PairwiseExpands) {
  const Matrix matrix = value_or_throw(parse_matrix(kHead + R"([matrix]
design = "pairwise"
optimizations = ["varlen", "ema_swap"]
axes = { seq_len = [128, 256], precision = ["fp32", "bf16"] }
exclude = [{ optimization = "ema_swap", precision = "bf16" }, { seq_len = 256, precision = "bf16" }]
include = [{ optimization = "grad_scaler", seq_len = 64 }]
)",
                                                    "m.toml"));
  std::vector<std::string> names;
  for (const MatrixCell& cell : matrix.cells) names.push_back(cell.name);
  EXPECT_THAT(names,
              testing::UnorderedElementsAre("varlen/precision=fp32/seq_len=128",
                                            "varlen/precision=fp32/seq_len=256",
                                            "varlen/precision=bf16/seq_len=128",
                                            "ema_swap/precision=fp32/seq_len=128",
                                            "ema_swap/precision=fp32/seq_len=256",
                                            "grad_scaler/seq_len=64"));
}

TEST(Matrix, PairwiseMistakes) {
  const std::string start = kHead + "[matrix]\noptimizations = [\"varlen\"]\n";
  EXPECT_THAT(problem(start + "axes = { seqlen = [1] }\n"),
              test::names("m.toml:6:", "key 'seqlen'"));
  EXPECT_THAT(problem(start + "axes = { seq_len = 1 }\n"), HasSubstr("non-empty array"));
  EXPECT_THAT(problem(start + "axes = { seq_len = [1] }\nexclude = [{ seq_len = 2 }]\n"),
              test::names("m.toml:7: [matrix] exclude", "{\"seq_len\":2}", "no cell"));
  EXPECT_THAT(problem(start + "include = [{ seq_len = 2 }]\n"),
              HasSubstr("needs an `optimization`"));
  EXPECT_THAT(problem(start + "axes = { seq_len = [64, 128, 64] }\n"),
              test::names("m.toml:6: [matrix] axes: 'seq_len' has 64 twice"));
  EXPECT_THAT(problem(kHead + "[matrix]\noptimizations = [\"varlen\", \"varlen\"]\n"),
              test::names("m.toml:5: [matrix] optimizations has 'varlen' twice"));
  EXPECT_THAT(problem(start + "include = [{ optimization = \"varlen\" }]\n"),
              test::names("m.toml:6: [matrix] include: there is a cell 'varlen' without it"));
}

TEST(Matrix, OverridesAreCheckedLikeTheFile) {
  const Matrix matrix = value_or_throw(parse_matrix(
      kHead + kCell,
      "m.toml",
      {"base.seq_len=64", "base.precision=bf16", "experiment.launches=9", "measure.sesoi=2 %"}));
  EXPECT_EQ(matrix.launches, 9);
  EXPECT_DOUBLE_EQ(*matrix.sesoi, 0.02);
  ASSERT_EQ(matrix.base.size(), 2u);
  EXPECT_THAT(problem(kHead + kCell, {"base.seqlen=64"}),
              test::names("--set base.seqlen=64:", "key 'seqlen'", "'seq_len'?"));
  EXPECT_THAT(problem(kHead + kCell, {"launches"}), HasSubstr("key=value"));
  EXPECT_THAT(problem(kHead + kCell, {"experiment.launches=many"}),
              test::names("--set experiment.launches=many:", "[experiment] launches", "integer"));
  EXPECT_THAT(problem(kHead + kCell, {"cell.rounds=3"}), test::names("'cell'", "table"));
  EXPECT_THAT(problem(kHead + kCell, {"launches", "cell.rounds=3", "base.seqlen=64"}),
              test::names("--set launches: ", "--set cell.rounds=3: ", "'seqlen'"));
}

TEST(Matrix, Durations) {
  EXPECT_DOUBLE_EQ(value_or_throw(parse_duration("90")), 90);
  EXPECT_DOUBLE_EQ(value_or_throw(parse_duration("1.5h")), 5400);
  EXPECT_DOUBLE_EQ(value_or_throw(parse_duration("2m30s")), 150);
  EXPECT_DOUBLE_EQ(value_or_throw(parse_duration("1h30m")), 5400);
  EXPECT_DOUBLE_EQ(value_or_throw(parse_duration("1h0.5m2s")), 3632);
  EXPECT_DOUBLE_EQ(value_or_throw(parse_duration("8760h")), 365 * 24 * 3600);
  EXPECT_THAT(parse_duration("99999999999999h").error().message, HasSubstr("a year"));
  for (const char* bad :
       {"", "m", "5x", "-5s", "0s", "5 m", "1h30", "9m9m", "30m1h", "1e3s", "inf", ".5h", "5s1"})
    EXPECT_FALSE(parse_duration(bad)) << bad;
}

TEST(Matrix, FilesThatCannotBeRead) {
  EXPECT_THAT(load_matrix("/nowhere.toml").error().message,
              test::names("/nowhere.toml:", "cannot be read"));
  EXPECT_THAT(load_matrix("/tmp").error().message, HasSubstr("is a directory"));
}

TEST(Matrix, TheShippedOnesParse) {
  for (const char* name : {"quickstart", "calibration", "design-card"}) {
    const Result<Matrix> matrix =
        load_matrix(test::source_dir() + "/experiments/matrices/" + name + ".toml");
    EXPECT_TRUE(matrix) << matrix.error().message;
  }
}

TEST(Matrix, HugeProductsAreRefusedBeforeTheyAreMade) {
  std::string axes;
  for (const char* key : {"seq_len", "batch_rows", "seed", "steps"}) {
    axes += fmt::format("{}{} = [", axes.empty() ? "" : ", ", key);
    for (int i = 1; i <= 100; ++i) axes += fmt::format("{},", i);
    axes += "]";
  }
  const auto matrix =
      parse_matrix("version = 1\n[experiment]\nname = \"x\"\n[matrix]\noptimizations = "
                   "[\"varlen\"]\naxes = { " +
                       axes + " }\n",
                   "m.toml");
  ASSERT_FALSE(matrix);
  EXPECT_EQ(matrix.error().message,
            "m.toml:4: [matrix] optimizations and axes make 1 x 100 x 100 x 100 x 100 cells, more "
            "than 1000 cells; take fewer values");
}

// However they are asked for: planning thousands of cells takes minutes.
TEST(Matrix, TooManyCellsAreRefusedBeforeTheyArePlanned) {
  std::string cells, more;
  for (int i = 0; i < 1001; ++i) {
    cells += fmt::format("[[cell]]\nname = \"c{}\"\noptimization = \"varlen\"\n", i);
    more += fmt::format("{{ optimization = \"varlen\", seq_len = {} }},", i + 1);
  }
  EXPECT_EQ(problem(kHead + cells),
            "m.toml: asks for 1001 cells, more than 1000 cells; divide it among several matrices");
  EXPECT_THAT(problem(kHead + "[matrix]\noptimizations = [\"varlen\"]\ninclude = [" + more + "]\n"),
              HasSubstr("1002 cells"));
}

TEST(Matrix, LimitsAndBytesThatAreNoText) {
  const std::string head =
      "version = 1\n[experiment]\nname = \"x\"\n[[cell]]\noptimization = \"varlen\"\n";
  const auto matrix = parse_matrix(head + "[limits]\nsteal = 0.1\npairs = \"30%\"\n", "m.toml");
  ASSERT_TRUE(matrix) << matrix.error().message;
  EXPECT_EQ(matrix->limits.steal, 0.1);
  EXPECT_EQ(matrix->limits.run_delay, DisturbanceLimits().run_delay);
  EXPECT_EQ(matrix->limits.pairs, 0.3);
  EXPECT_FALSE(parse_matrix(head + "[limits]\nstael = 0.1\n", "m.toml"));
  EXPECT_THAT(parse_matrix(head, "m.toml", {"experiment.name=a\xff"}).error().message,
              testing::AllOf(HasSubstr("UTF-8"), testing::Not(HasSubstr("file"))));
  EXPECT_THAT(parse_matrix(head, "m.toml", {"base.data=a\xff"}).error().message,
              HasSubstr("rename the file"));
}

} // namespace matrix_test
} // namespace assay
