#include "experiments/plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "core/text.h"
#include "experiments/analysis/claims.h"
#include "experiments/analysis/report.h"
#include "tests/experiments/plan/plan_fixture.h"
#include "tests/names.h"
#include "tests/paths.h"

namespace assay {
namespace plan_test {

using test::kHead;
using test::PlanTest;
using test::small_plan;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

TEST_F(PlanTest, VariantsAreReferenceLevelsAndControl) {
  const Plan plan = small_plan(scratch_);
  ASSERT_EQ(plan.ledger.cells.size(), 2u);
  const auto variants = variants_of(plan.ledger, 1);
  ASSERT_EQ(variants.size(), 4u);
  EXPECT_EQ(variants[0]->name, "clone_copy");
  EXPECT_EQ(variants[0]->role, Role::Reference);
  EXPECT_EQ(variants[2]->name, "exchange");
  EXPECT_EQ(variants[2]->role, Role::Level);
  EXPECT_EQ(variants[3]->name, "control");
  EXPECT_EQ(variants[3]->level, "clone_copy");
  EXPECT_EQ(variants[3]->role, Role::Control);
  EXPECT_EQ(variants[3]->config_json, variants[0]->config_json);
  const auto config = nlohmann::json::parse(variants[2]->config_json);
  EXPECT_EQ(config.at("ema_swap"), "exchange");
  EXPECT_EQ(config.at("d_model"), 160); // resolved from the preset
  EXPECT_EQ(plan.ledger.cells[0].unit, "evaluation");
  EXPECT_EQ(plan.ledger.optimizations.at(0).levels.size(), 3u);
}

TEST_F(PlanTest, HowAPathIsWrittenIsNoPartOfThePlan) {
  const std::string path = scratch_.write("corpus.txt", "text");
  const auto spec = [&](const std::string& data) {
    return value_or_throw(
               make_plan(value_or_throw(parse_matrix(
                             test::kSmallMatrix, "m.toml", {"base.data='" + data + "'"})),
                         {}))
        .ledger.spec.hash;
  };
  const std::string directory = std::filesystem::path(path).parent_path().string();
  EXPECT_EQ(spec(directory), spec(directory + "/"));
  EXPECT_EQ(spec(directory), spec(directory + "//./"));
  EXPECT_NE(spec(directory), spec(path));
  EXPECT_EQ(plain_path("./a//b/./c/"), "a/b/c");
  EXPECT_EQ(plain_path("a/../b"), "a/../b"); // `a` may be a link
  EXPECT_EQ(plain_path("./"), ".");
  EXPECT_EQ(plain_path("/"), "/");
}

TEST_F(PlanTest, ChosenLevelsKeepTheReference) {
  const Plan plan = small_plan(
      scratch_, kHead + "[[cell]]\noptimization = \"ema_swap\"\nlevels = [\"exchange\"]\n");
  const auto variants = variants_of(plan.ledger, 1);
  ASSERT_EQ(variants.size(), 3u);
  EXPECT_EQ(variants[0]->name, "clone_copy");
  EXPECT_EQ(variants[1]->name, "exchange");
}

TEST_F(PlanTest, AnotherLevelMayBeTheReference) {
  const std::string cell = kHead + "[[cell]]\noptimization = \"ema_swap\"\n";
  const Plan after = small_plan(scratch_, cell + "reference = \"pointer_swap\"\n");
  const auto variants = variants_of(after.ledger, 1);
  ASSERT_EQ(variants.size(), 3u); // clone_copy comes before it
  EXPECT_EQ(variants[0]->name, "pointer_swap");
  EXPECT_EQ(variants[0]->role, Role::Reference);
  EXPECT_EQ(variants[1]->name, "exchange");
  EXPECT_EQ(variants[2]->level, "pointer_swap"); // the control
  const Plan back = small_plan(
      scratch_, cell + "reference = \"exchange\"\nlevels = [\"clone_copy\", \"exchange\"]\n");
  ASSERT_EQ(variants_of(back.ledger, 1).size(), 3u);
  EXPECT_EQ(variants_of(back.ledger, 1)[0]->name, "exchange");
  EXPECT_EQ(variants_of(back.ledger, 1)[1]->name, "clone_copy");
  EXPECT_THAT(problem(cell + "reference = \"pointer_swop\"\n"),
              HasSubstr("unknown level 'pointer_swop'"));
  EXPECT_THAT(problem(cell + "reference = \"exchange\"\n"),
              test::names("no level", "reference 'exchange'"));
}

TEST_F(PlanTest, TheHashNamesWhatDeterminesTheExperiment) {
  const std::string base = hash({});
  EXPECT_EQ(base, hash({}));
  PlanOptions command;
  command.command = "another command line";
  EXPECT_EQ(base, hash({}, command));
  EXPECT_EQ(base, hash({"experiment.budget=\"3m\""}));
  EXPECT_NE(base, hash({"experiment.seed=8"}));
  EXPECT_NE(base, hash({"experiment.launches=3"}));
  EXPECT_NE(base, hash({"base.seq_len=64"}));
  EXPECT_NE(base, hash({"measure.alpha=0.01"}));
  EXPECT_NE(base, hash({"measure.sesoi=0.02"}));
  const PlanOptions claims = shipped_claims();
  EXPECT_EQ(base, hash({}, claims)) << "a matrix that asks for no claims has none";
  EXPECT_NE(base, hash({"claims.files=[\"ema_swap.toml\"]"}, claims));
}

TEST_F(PlanTest, ClaimsAreThoseThatTheMatrixAsksFor) {
  EXPECT_THAT(claim_ids(""), testing::IsEmpty());
  EXPECT_THAT(claim_ids("[claims]\nfiles = []\n"), testing::IsEmpty());
  // Of ema_swap.toml one claim is about a row that this plan does not have.
  EXPECT_THAT(claim_ids("[claims]\nfiles = [\"bf16_guard.toml\", \"ema_swap.toml\"]\n"),
              testing::ElementsAre("bf16-guard-overhead",
                                   "bf16-guard-report",
                                   "ema-swap-memory",
                                   "ema-swap-validation-memory",
                                   "ema-swap-validation-time",
                                   "ema-swap-validation-faster",
                                   "ema-swap-speed"));
}

// A file of checks alone has no claim that a cell could bear on.
TEST_F(PlanTest, AClaimsFileWithoutAClaimOfACellIsOneNote) {
  const auto notes = [&](const std::string& files) {
    const std::string matrix = kHead + "[[cell]]\noptimization = \"ema_swap\"\n[claims]\nfiles = [",
                      data = "base.data=\"" + scratch_.write("corpus.txt", "text") + "\"";
    return note_texts(value_or_throw(make_plan(
        value_or_throw(parse_matrix(matrix + files + "]\n", "m.toml", {data})), shipped_claims())));
  };
  EXPECT_THAT(
      notes("\"ema_swap.toml\", \"bf16_guard.toml\", \"nsa_ranges.toml\", \"arithmetic.toml\""),
      testing::ElementsAre(test::names("bf16_guard.toml or nsa_ranges.toml", "judged")));
  EXPECT_THAT(notes("\"ema_swap.toml\", \"arithmetic.toml\""), testing::IsEmpty());
}

// `fused` runs the chunks on a CPU: a reader shall not take its time for that of the kernels.
TEST_F(PlanTest, ALevelThatRunsTheCodeOfAnotherOnACpuIsOneNote) {
  const auto notes = [&](const std::string& device) {
    const std::string matrix =
        kHead + "[[cell]]\noptimization = \"scan_form\"\nset = { device = \"" + device +
        "\", precision = \"bf16\", head_dim = 64, family = \"rwmba\", preset = \"chars\" }\n";
    const std::string data = "base.data=\"" + scratch_.write("corpus.txt", "text") + "\"";
    return note_texts(
        value_or_throw(make_plan(value_or_throw(parse_matrix(matrix, "m.toml", {data})), {})));
  };
  const auto note = test::names("scan_form = fused", "chunked on a CPU");
  EXPECT_THAT(notes("cpu"), testing::Contains(note).Times(1));
  EXPECT_THAT(notes("cuda"), testing::Not(testing::Contains(note)));
}

TEST_F(PlanTest, OwnClaimsLieBesideTheMatrix) {
  const std::string own =
      "[[claim]]\nid = \"own\"\nkind = \"setting\"\noptimization = \"ema_swap\"\nfrom = "
      "\"clone_copy\"\nto = \"exchange\"\ntext = \"t\"\nsource = \"s\"\nconditions = \"c\"\n";
  scratch_.write("own.toml", own);
  EXPECT_THAT(claim_ids("[claims]\nfiles = [\"own.toml\"]\n"), testing::ElementsAre("own"));
  EXPECT_THAT(claim_ids("[claims]\nfiles = [\"./own.toml\"]\n"), testing::ElementsAre("own"));
  scratch_.write("bf16_guard.toml", own); // goes before the shipped file of that name
  EXPECT_THAT(claim_ids("[claims]\nfiles = [\"bf16_guard.toml\"]\n"), testing::ElementsAre("own"));
  const std::string missing = problem(
      std::string(test::kSmallMatrix) + "[claims]\nfiles = [\"none.toml\"]\n", shipped_claims());
  EXPECT_THAT(missing, HasSubstr("'none.toml'"));
  EXPECT_THAT(missing, HasSubstr("/experiments/claims/none.toml"));
}

TEST_F(PlanTest, OnTheCpuAVisitOfEvaluationsDiscardsItsFirst) {
  const std::string cells = "[[cell]]\noptimization = \"ema_swap\"\n"
                            "[[cell]]\noptimization = \"varlen\"\n";
  const Plan plan = small_plan(scratch_, kHead + cells);
  EXPECT_EQ(plan.ledger.cells.at(0).visit_steps, 2);
  EXPECT_EQ(plan.ledger.cells.at(0).discard_steps, 1);
  EXPECT_EQ(plan.ledger.cells.at(1).visit_steps, 1);
  EXPECT_EQ(plan.ledger.cells.at(1).discard_steps, 0);
  const Plan set = small_plan(scratch_, kHead + "[measure]\nvisit_steps = 1\n" + cells);
  EXPECT_EQ(set.ledger.cells.at(0).discard_steps, 0);
}

TEST_F(PlanTest, TheGpuHasItsOwnDefaults) {
  const Plan plan = small_plan(
      scratch_, kHead + "[base]\ndevice = \"cuda\"\n[[cell]]\noptimization = \"ema_swap\"\n");
  EXPECT_EQ(plan.ledger.cells[0].visit_steps, 5);
  EXPECT_EQ(plan.ledger.cells[0].discard_steps, 1);
  EXPECT_DOUBLE_EQ(plan.ledger.spec.sesoi, 0.005);
}

// Three varlen variants and the control of `tiny` take about 4 x 20 MB: room for three replicas
// splits the two levels.
// Ranks on a CPU share its memory.
TEST_F(PlanTest, MemoryCountsTheRanksOfACpu) {
  const auto bytes = [&](const std::string& ranks) {
    const std::string data = "base.data=\"" + scratch_.write("corpus.txt", "text") + "\"";
    const Plan made = value_or_throw(
        make_plan(value_or_throw(parse_matrix(
                      kHead + "[[cell]]\noptimization = \"ema_swap\"\nset = { " + ranks + " }\n",
                      "m.toml",
                      {data})),
                  {}));
    return estimate(made).cells[0].memory_bytes;
  };
  EXPECT_EQ(bytes("ranks = 3"), 3 * bytes("ranks = 1"));
}

TEST_F(PlanTest, VariantsThatDoNotFitAreSplit) {
  const std::string data = "base.data=\"" + scratch_.write("corpus.txt", "text") + "\"";
  const Matrix matrix = value_or_throw(
      parse_matrix(kHead + "[[cell]]\noptimization = \"varlen\"\n", "m.toml", {data}));
  const Plan whole = value_or_throw(make_plan(matrix, {}));
  const std::int64_t all = estimate(whole).cells[0].memory_bytes;
  PlanOptions options;
  options.host_memory_bytes = static_cast<std::int64_t>(static_cast<double>(all) / 0.7) - 1000;
  const Plan split = value_or_throw(make_plan(matrix, options));
  ASSERT_EQ(split.ledger.cells.size(), 2u);
  EXPECT_EQ(split.ledger.cells[1].name, "varlen/group2");
  for (const CellRow& cell : split.ledger.cells) {
    const auto variants = variants_of(split.ledger, cell.id);
    ASSERT_EQ(variants.size(), 3u);
    EXPECT_EQ(variants[0]->role, Role::Reference);
    EXPECT_EQ(variants[2]->role, Role::Control);
  }
  EXPECT_THAT(note_texts(split), testing::ElementsAre(test::names("cell 'varlen'", "2 groups")));
  options.host_memory_bytes = 1 << 20;
  EXPECT_THAT(make_plan(matrix, options).error().message, HasSubstr("smaller preset"));
  options.cells = {"varlen/group2"};
  EXPECT_THAT(make_plan(matrix, options).error().message, HasSubstr("smaller preset"));
  options.cells = {"another"};
  const Plan without = value_or_throw(make_plan(matrix, options));
  EXPECT_THAT(note_texts(without), testing::ElementsAre(HasSubstr("2 groups")));
  EXPECT_EQ(without.ledger.spec.hash, split.ledger.spec.hash) << "the plan has all cells";
}

// A level, the reference and the control need more than there is, each alone less.
TEST_F(PlanTest, VariantsThatFitAloneRunOneAfterTheOther) {
  const std::string data = "base.data=\"" + scratch_.write("corpus.txt", "text") + "\"";
  const std::string text = kHead + "[[cell]]\noptimization = \"varlen\"\nlevels = [\"varlen\"]\n";
  const Matrix matrix = value_or_throw(parse_matrix(text, "m.toml", {data}));
  const Plan whole = value_or_throw(make_plan(matrix, {}));
  EXPECT_FALSE(whole.ledger.cells[0].apart);
  const std::int64_t all = estimate(whole).cells[0].memory_bytes;
  PlanOptions options;
  options.host_memory_bytes = static_cast<std::int64_t>(static_cast<double>(all) / 0.7) - 1000;
  const Plan apart = value_or_throw(make_plan(matrix, options));
  ASSERT_EQ(apart.ledger.cells.size(), 1u);
  EXPECT_TRUE(apart.ledger.cells[0].apart && apart.ledger.cells[0].turns);
  EXPECT_THAT(note_texts(apart),
              testing::ElementsAre(test::names("one process after the other", "do not fit")));
  const Matrix twin =
      value_or_throw(parse_matrix(text, "m.toml", {data, "measure.interleave=twin"}));
  EXPECT_THAT(make_plan(twin, options).error().message, HasSubstr("smaller preset"));
}

TEST_F(PlanTest, ResultsMayDecideTheNumberOfLaunches) {
  const std::string data = "base.data=\"" + scratch_.write("corpus.txt", "text") + "\"";
  const std::string cells = "[[cell]]\noptimization = \"varlen\"\n"
                            "[[cell]]\noptimization = \"ema_swap\"\nlaunches = 6\n";
  const auto planned = [&](const std::vector<std::string>& settings) {
    std::vector<std::string> all{data, "experiment.launches=auto"};
    all.insert(all.end(), settings.begin(), settings.end());
    return make_plan(value_or_throw(parse_matrix(kHead + cells, "m.toml", all)), {});
  };
  const Plan twelve = value_or_throw(planned({}));
  EXPECT_THAT(twelve.ledger.cells[0].looks, testing::ElementsAre(5, 8, 12));
  EXPECT_EQ(twelve.ledger.cells[0].launches, 12);
  EXPECT_THAT(twelve.ledger.cells[1].looks, testing::IsEmpty());
  EXPECT_EQ(twelve.ledger.cells[1].launches, 6);
  const PlanEstimate all = estimate(twelve);
  EXPECT_EQ(all.cells[0].least_launches, 5);
  EXPECT_EQ(all.cells[0].launches, 12);
  const Plan twenty = value_or_throw(planned({"experiment.max_launches=20"}));
  EXPECT_THAT(twenty.ledger.cells[0].looks, testing::ElementsAre(5, 8, 12, 16, 20));
  EXPECT_LT(*estimate(twenty).cells[0].mde, *all.cells[0].mde);
  EXPECT_THAT(value_or_throw(planned({"experiment.max_launches=5"})).ledger.cells[0].looks,
              testing::ElementsAre(5));
  EXPECT_THAT(test::failure_of([&] { (void)planned({"experiment.max_launches=21"}); }),
              test::names("max_launches", "20"));
  EXPECT_THAT(test::failure_of([&] { (void)planned({"experiment.launches=often"}); }),
              test::names("launches", "auto"));
}

// MDE of the median with sd .1 and 6 rounds, 5 launches, power .8, and alpha .05 shared among the
// plan's 4 verdicts: ncp * sqrt(pi/2/6) * .1 / sqrt(5) with P(|T| > t_{1-.05/8},4) = .8 for the
// non-central t of 4 degrees of freedom. By scipy.stats.nct: t = 4.314656, ncp = 5.538272.
TEST_F(PlanTest, EstimatesTimeAndDetectableEffect) {
  const Plan plan = small_plan(scratch_);
  const PlanEstimate none = estimate(plan);
  EXPECT_EQ(none.seconds, std::nullopt);
  EXPECT_DOUBLE_EQ(none.pair_sd, 0.10);
  EXPECT_EQ(none.cells[0].mde, std::nullopt) << "2 launches can never give a verdict";
  Plan five = plan;
  for (CellRow& cell : five.ledger.cells) cell.launches = 5;
  EXPECT_NEAR(estimate(five).cells[0].mde.value_or(0), 0.1267283, 1e-6);
  EXPECT_EQ(none.judgements, 4);
  EXPECT_DOUBLE_EQ(none.judged_alpha, 0.05 / 4);
  EXPECT_DOUBLE_EQ(none.judged_alpha, judge_results(plan.ledger).judged_alpha);
  const ProbeResult probe{20e6, 0, 0, 0.1};
  const PlanEstimate probed = estimate(plan, {{1, probe}, {2, probe}});
  // cell 1: 2 launches x (1.2 + 4 (.1 + 18 x .04)) + 2.4 + 4 (.2 + 12 x .04), and a traced launch
  // without the control: 1.2 + 3 (.1 + 15 x .04)
  EXPECT_NEAR(*probed.cells[0].seconds,
              2 * (1.2 + 4 * (0.1 + 0.72)) + 2.4 + 4 * (0.2 + 0.48) + 1.2 + 3 * (0.1 + 0.60),
              1e-9);
  EXPECT_NEAR(*probed.seconds, *probed.cells[0].seconds + *probed.cells[1].seconds, 1e-9);
}

TEST_F(PlanTest, NotesWhatTooFewLaunchesCannotGive) {
  const auto notes = [&](const std::string& launches) {
    return note_texts(small_plan(
        scratch_, kHead + "[[cell]]\noptimization = \"varlen\"\nlaunches = " + launches + "\n"));
  };
  EXPECT_THAT(notes("2"), Contains(test::names("2 launches", "never give", "a verdict")));
  EXPECT_THAT(
      notes("3"),
      Contains(test::names("3 launches", "FASTER or SLOWER", "(5 needed)", "NO_EFFECT needs 3")));
  EXPECT_THAT(notes("5"), Not(Contains(HasSubstr("can never"))));
}

TEST_F(PlanTest, CellsThatShareANoteAreNamedInOne) {
  const std::string cell = "[[cell]]\noptimization = \"varlen\"\nlaunches = 2\nname = ";
  const Plan plan = small_plan(scratch_, kHead + cell + "\"one\"\n" + cell + "\"two\"\n");
  EXPECT_THAT(note_texts(plan),
              testing::ElementsAre(testing::StartsWith("cells 'one', 'two': 2 ")));
  for (const char* chosen : {"two", "two/group1"})
    EXPECT_THAT(note_texts(plan, {chosen}),
                testing::ElementsAre(testing::StartsWith("cell 'two': 2 ")))
        << chosen;
}

// What the shipped GPU matrices plan: claims that their cells can test, eight launches.
TEST_F(PlanTest, GpuMatricesOfClaimsPlanEightLaunches) {
  const std::string data = "base.data=\"" + scratch_.write("corpus.txt", "text") + "\"";
  for (const char* name : {"design-card", "ddp", "nsa-ranges"}) {
    const Matrix matrix = value_or_throw(
        load_matrix(test::source_dir() + "/experiments/matrices/" + name + ".toml", {data}));
    EXPECT_EQ(matrix.launches, 8) << name;
    EXPECT_FALSE(matrix.claim_files.empty()) << name;
  }
  const Plan plan = value_or_throw(
      make_plan(value_or_throw(load_matrix(
                    test::source_dir() + "/experiments/matrices/nsa-ranges.toml", {data})),
                shipped_claims()));
  ASSERT_EQ(plan.ledger.claims.size(), 4u);
  for (const ClaimRow& claim : plan.ledger.claims)
    EXPECT_EQ(unmet_conditions(claim, plan.ledger.cells.at(0).config_json, ""), "") << claim.id;
}

// All of them can be planned, and models have an id for every piece of the vocabulary that their
// first lines train.
TEST_F(PlanTest, ShippedMatricesPlan) {
  const std::string data = "base.data=\"" + scratch_.write("corpus.txt", "text") + "\"",
                    vocabulary = scratch_.write("tok.model", "");
  std::map<std::string, std::string> files{{"\"tok.model\"", vocabulary}}; // that they need
  for (const std::string package : {"gpt.pt2", "rwmba.pt2"})
    files["\"results/" + package + "\""] = scratch_.write(package, "");
  int with_vocabulary = 0;
  for (const auto& file :
       std::filesystem::directory_iterator(test::source_dir() + "/experiments/matrices")) {
    std::ifstream stream(file.path());
    std::string text((std::istreambuf_iterator<char>(stream)), {});
    for (const auto& [name, path] : files)
      for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name))
        text.replace(at, name.size(), "\"" + path + "\"");
    const Result<Plan> plan =
        make_plan(value_or_throw(parse_matrix(text, file.path(), {data})), shipped_claims());
    ASSERT_TRUE(plan) << file.path() << ": " << plan.error().message;
    for (const VariantRow& variant : plan->ledger.variants) {
      const auto config = nlohmann::json::parse(variant.config_json);
      if (!config.at("tokenizer").get<std::string>().ends_with("tok.model")) continue;
      ++with_vocabulary;
      EXPECT_GE(config.at("vocab_size"), 16384) << file.path() << " " << variant.name;
    }
  }
  EXPECT_GT(with_vocabulary, 50);
}

TEST_F(PlanTest, QuickstartPlans) {
  const PlanOptions options = shipped_claims();
  const std::string data = "base.data=\"" + scratch_.write("corpus.txt", "text") + "\"";
  for (const char* device : {"cpu", "cuda"}) {
    const Plan plan = value_or_throw(make_plan(
        value_or_throw(load_matrix(test::source_dir() + "/experiments/matrices/quickstart.toml",
                                   {data, std::string("base.device=") + device})),
        options));
    EXPECT_EQ(plan.ledger.cells.size(), 3u);
    EXPECT_EQ(plan.ledger.claims.size(), 0u) << "none holds for a model of this size";
    for (const CellRow& cell : plan.ledger.cells) EXPECT_EQ(cell.loss_seeds, 0) << "minutes more";
  }
}

} // namespace plan_test
} // namespace assay
