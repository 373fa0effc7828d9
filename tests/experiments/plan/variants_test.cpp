// Cells that compare sets of training keys: [cell.variants].
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/ledger/launch_rules.h"
#include "experiments/analysis/claims.h"
#include "model/config/key_variants.h"
#include "tests/experiments/support.h"
#include "tests/names.h"

namespace assay {
namespace variants_test {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kHead = "version = 1\n[experiment]\nname = \"t\"\n[base]\npreset = \"tiny\"\n";
const std::string kPrecision = kHead + "[[cell]]\nname = \"precision\"\n[cell.variants]\n"
                                       "half = { set = { precision = \"bf16\", lr = 0.001 } }\n"
                                       "full = { }\n";

class VariantsTest : public testing::Test {
protected:
  std::string problem(const std::string& cell) const {
    const Result<Matrix> matrix = parse_matrix(kHead + "[[cell]]\n" + cell, "m.toml", {data()});
    if (!matrix) return matrix.error().message;
    const Result<Plan> plan = make_plan(*matrix, {});
    return plan ? "" : plan.error().message;
  }
  Plan plan(const std::string& matrix) const { return test::small_plan(scratch_, matrix); }
  std::string data() const {
    return "base.data=\"" + scratch_.write("corpus.txt", "some text") + "\"";
  }
  test::Scratch scratch_;
};

std::vector<std::string> names(const Plan& plan) {
  std::vector<std::string> result;
  for (const VariantRow& variant : plan.ledger.variants) result.push_back(variant.name);
  return result;
}

TEST_F(VariantsTest, AreLevelsInTheOrderOfTheFile) {
  const Plan made = plan(kPrecision);
  EXPECT_THAT(names(made), ElementsAre("half", "full", "control"));
  ASSERT_EQ(made.ledger.optimizations.size(), 1u);
  const OptimizationRow& row = made.ledger.optimizations[0];
  EXPECT_EQ(row.name, "precision");
  EXPECT_EQ(row.scope, kScopeOfKeys);
  EXPECT_EQ(row.equivalence, "objective");
  EXPECT_EQ(row.levels[0].summary, "lr = 0.001, precision = \"bf16\"");
  EXPECT_EQ(made.ledger.cells[0].unit, "train_step");
  const auto config = [&](std::size_t i) {
    return nlohmann::json::parse(made.ledger.variants[i].config_json);
  };
  EXPECT_EQ(config(0)["precision"], "bf16");
  EXPECT_EQ(config(0)["lr"], 0.001);
  EXPECT_EQ(config(1)["precision"], "fp32");
  EXPECT_EQ(config(2), config(0)); // the control is the baseline again
}

TEST_F(VariantsTest, TheReferenceComesFirst) {
  std::string matrix = kPrecision;
  matrix.replace(
      matrix.find("[cell.variants]"), 0, "reference = \"full\"\nexpect = \"statistical\"\n");
  EXPECT_THAT(names(plan(matrix)), ElementsAre("full", "half", "control"));
  EXPECT_EQ(plan(matrix).ledger.optimizations[0].equivalence, "statistical");
}

TEST_F(VariantsTest, RanksStandBesideTheSetOrInIt) {
  const auto made = [&](const std::string& two) {
    return kHead +
           "[[cell]]\nname = \"scale\"\nunit = \"token\"\nset = { threads = 1 }\n"
           "[cell.variants]\none = { }\ntwo = { " +
           two + " }\n";
  };
  const Plan beside = plan(made("ranks = 2")), within = plan(made("set = { ranks = 2 }"));
  EXPECT_EQ(nlohmann::json::parse(beside.ledger.variants[1].config_json)["ranks"], 2);
  EXPECT_EQ(beside.ledger.spec.hash, within.ledger.spec.hash);
  const auto wrong = [&](const std::string& two) {
    const Result<Matrix> matrix = parse_matrix(made(two), "m.toml", {data()});
    return matrix ? "" : matrix.error().message;
  };
  EXPECT_THAT(wrong("ranks = 0"), test::names("m.toml:12", "variant 'two'", "'ranks'"));
  EXPECT_THAT(wrong("ranks = \"2\""), test::names("m.toml:12", "variant 'two'", "'ranks'"));
  EXPECT_THAT(wrong("ranks = 2, set = { ranks = 3 }"), test::names("m.toml:12", "ranks twice"));
}

// What a variant leaves out is as the cell has it.
TEST_F(VariantsTest, AVariantGoesOverTheCell) {
  const Plan made = plan(kHead + "[[cell]]\nname = \"clip\"\nunit = \"evaluation\"\n"
                                 "set = { grad_clip = 2.0, lr = 0.002 }\n[cell.variants]\n"
                                 "two = {}\nnone = { set = { grad_clip = 0.0 } }\n");
  const auto config = nlohmann::json::parse(made.ledger.variants[1].config_json);
  EXPECT_EQ(config["grad_clip"], 0.0);
  EXPECT_EQ(config["lr"], 0.002);
  EXPECT_EQ(made.ledger.cells[0].unit, "evaluation");
}

TEST_F(VariantsTest, MistakesOfTheFileNameTheirLine) {
  const std::string two = "[cell.variants]\na = {}\nb = { set = { lr = 0.1 } }\n";
  EXPECT_THAT(problem("optimization = \"varlen\"\n" + two), test::names("m.toml:", "`variants`"));
  EXPECT_THAT(problem("name = \"n\"\n"), test::names("m.toml:6", "`optimization`"));
  EXPECT_THAT(problem(two), test::names("m.toml:", "`name`"));
  EXPECT_THAT(problem("name = \"n\"\n[cell.variants]\na = {}\n"), HasSubstr("at least two"));
  EXPECT_THAT(problem("name = \"n\"\nlevels = [\"a\"]\n" + two),
              test::names("m.toml:8", "`levels`"));
  EXPECT_THAT(problem("name = \"n\"\nexpect = \"math\"\n" + two),
              test::names("m.toml:8", "'math'", "statistical, objective"));
  EXPECT_THAT(problem("name = \"n\"\nunit = \"visit\"\n" + two),
              test::names("m.toml:8", "train_step, evaluation, token, pipeline_step"));
  EXPECT_THAT(problem("name = \"n\"\nunit = \"token\"\nquality = { margin = 0.1, every = 1 }\n"
                      "[cell.variants]\na = { set = { batch_rows = 2 } }\n"
                      "b = { set = { batch_rows = 3 } }\n"),
              test::names("m.toml:9", "1 steps of 'a'", "'b'", "every"));
  EXPECT_THAT(problem("name = \"n\"\nreference = \"c\"\n" + two),
              test::names("m.toml:8", "'c'", "a, b"));
  EXPECT_THAT(problem("optimization = \"varlen\"\nexpect = \"math\"\n"),
              test::names("m.toml:8", "expect"));
  EXPECT_THAT(problem("name = \"n\"\n[cell.variants]\na = {}\ncontrol = { set = { lr = 0.1 } }\n"),
              test::names("m.toml:10", "control"));
  EXPECT_THAT(problem("name = \"n\"\n[cell.variants]\na = {}\nb = { environ = { A = \"1\" } }\n"),
              test::names("m.toml:10", "'environ'", "'env'"));
  EXPECT_THAT(problem("name = \"n\"\n[cell.variants]\na = {}\nb = { env = { A = 1 } }\n"),
              test::names("m.toml:10", "'b'", "A takes"));
  EXPECT_THAT(problem("name = \"n\"\n[cell.variants]\na = {}\nb = { env = { \"1A\" = \"1\" } }\n"),
              test::names("m.toml:10", "'b'", "'1A'"));
  EXPECT_THAT(
      problem("name = \"n\"\n[cell.variants]\na = { worker = \"w\" }\nb = { worker = \"v\" }\n"),
      test::names("m.toml:8", "worker"));
  EXPECT_THAT(problem("name = \"n\"\n[cell.variants]\na = {}\nb = { worker = \"\" }\n"),
              test::names("m.toml:10", "'b'", "worker"));
  EXPECT_THAT(problem("name = \"n\"\n[cell.variants]\na = {}\nb = { set = { lrr = 0.1 } }\n"),
              test::names("m.toml:10", "'lr'"));
  EXPECT_THAT(problem("name = \"n\"\n[cell.variants]\na = {}\nb = 3\n"),
              test::names("m.toml:10", "'b'"));
}

TEST_F(VariantsTest, WhatOneProcessCannotCompareIsRefused) {
  const auto with =
      [&](const std::string& set, const std::string& keys = "", const std::string& tables = "") {
        return problem("name = \"n\"\n" + keys + "[cell.variants]\na = {}\nb = { set = { " + set +
                       " } }\n" + tables);
      };
  EXPECT_EQ(with("threads = 2"), ""); // each in a process of its own
  EXPECT_THAT(with("threads = 2", "", "[measure]\ninterleave = \"twin\"\n"),
              test::names("m.toml:10", "'b'", "threads", "twin"));
  EXPECT_THAT(with("seed = 2, threads = 2"), test::names("m.toml:10", "'b'", "seed"));
  EXPECT_THAT(with("ranks = 2"), test::names("m.toml:10", "ranks", "unit = \"token\""));
  EXPECT_THAT(with("seq_len = 64, batch_rows = 1"),
              test::names("batch_rows and seq_len", "unit = \"token\""));
  EXPECT_EQ(with("seq_len = 64, batch_rows = 1", "unit = \"token\"\n"), "");
  EXPECT_THAT(with("precision = \"fp32\""), test::names("'b'", "baseline 'a'")); // its default
  EXPECT_EQ(with("ffn_dim = 96"), "");
  EXPECT_THAT(with("prefetch_batches = 2"),
              test::names("m.toml:10", "'b'", "prefetch_batches", "unit = \"pipeline_step\""));
  EXPECT_EQ(with("prefetch_batches = 2", "unit = \"pipeline_step\"\n"), "");
  const std::string synthetic = "unit = \"pipeline_step\"\nset = { data_source = \"synthetic\" }\n";
  EXPECT_THAT(with("prefetch_batches = 2", synthetic),
              test::names("m.toml:12", "'b'", "prefetch_batches", "data_source = synthetic"));
  EXPECT_EQ(with("prefetch_batches = 2, lr = 0.1", synthetic), "");
  EXPECT_THAT(with("batch_copy = \"pageable\"", "unit = \"pipeline_step\"\n"),
              test::names("m.toml:11", "'b'", "batch_copy", "CPU"));
  EXPECT_THAT(with("batch_rows = 1", "unit = \"pipeline_step\"\n"),
              test::names("batch_rows", "unit = \"token\""));
  EXPECT_THAT(problem("name = \"varlen\"\n[cell.variants]\na = {}\nb = { set = { lr = 0.1 } }\n"),
              test::names("m.toml:7", "varlen"));
}

// By default a visit of every variant counts the same tokens.
TEST_F(VariantsTest, VisitsOfTokensTakeWholeStepsOfAll) {
  const auto cell = [&](const std::string& keys, const std::string& variants) {
    return plan(kHead + "[[cell]]\nname = \"batch\"\nunit = \"token\"\n" + keys +
                "[cell.variants]\n" + variants);
  };
  const std::string six = "six = { set = { batch_rows = 6 } }\n",
                    four = "four = { set = { batch_rows = 4 } }\n",
                    two = "two = { set = { batch_rows = 1, accumulate = 2 } }\n",
                    prime = "prime = { set = { batch_rows = 37 } }\n";
  const Plan made = cell("", six + four + two);
  EXPECT_EQ(made.ledger.cells[0].unit, "token");
  EXPECT_EQ(made.ledger.cells[0].visit_steps, 3); // 12 rows in 2 steps, and one is discarded
  EXPECT_EQ(made.ledger.cells[0].discard_steps, 1);
  EXPECT_EQ(made.ledger.cells[0].traced_rounds, 0);
  EXPECT_THAT(note_texts(made), testing::Not(testing::Contains(HasSubstr("tokens"))));
  EXPECT_EQ(cell("", six + two).ledger.cells[0].visit_steps, 1); // 6 rows are 3 steps of 2
  const Plan unequal = cell("quality = { seeds = 0 }\n", six + prime);
  EXPECT_EQ(unequal.ledger.cells[0].visit_steps, 1);
  EXPECT_THAT(note_texts(unequal), testing::Contains(HasSubstr("'prime'")));
}

TEST(KeyVariants, StepsOfEqualTokens) {
  TrainConfig config;
  config.seq_len = 64, config.batch_rows = 4, config.accumulate = 3, config.ranks = 2;
  EXPECT_EQ(step_tokens(config), 1536);
  EXPECT_EQ(steps_of_equal_tokens(256, 128, 3), 6);
  EXPECT_EQ(steps_of_equal_tokens(128, 256, 5), 3); // 640 tokens are 2.5 steps
  EXPECT_EQ(steps_of_equal_tokens(128, 250, 3), 2);
  EXPECT_EQ(steps_of_equal_tokens(128, 25600, 1), 1);
}

std::string key_claim(const std::string& id, const std::string& from, const std::string& to) {
  return fmt::format(
      "[[claim]]\nid = \"{}\"\nfrom = {{ set = {{ {} }} }}\nto = {{ set = {{ {} }} }}\n"
      "text = \"t\"\nsource = \"s\"\nmetric = \"throughput\"\ndirection = \"more\"\n"
      "gain = [0.1, 0.2]\nconditions = \"any\"\n",
      id,
      from,
      to);
}

// A claim about keys joins the plan where a cell compares one of its keys; a near miss is a note.
TEST_F(VariantsTest, ClaimsAboutTheirKeysJoinThePlan) {
  const std::string full = "precision = \"fp32\", lr = 0.002",
                    half = "precision = \"bf16\", lr = 0.001";
  const std::string file =
      scratch_.write("claims.toml",
                     key_claim("exact", full, half) + key_claim("reversed", half, full) +
                         key_claim("lr-alone", "lr = 0.002", "lr = 0.001") +
                         key_claim("elsewhere", "norms = \"ops\"", "norms = \"fused\""));
  const Plan made = plan(kHead +
                         "[[cell]]\nname = \"precision\"\nset = { lr = 0.002 }\n"
                         "[cell.variants]\nfull = {}\n"
                         "half = { set = { precision = \"bf16\", lr = 0.001 } }\n"
                         "[claims]\nfiles = [\"" +
                         file + "\"]\n");
  std::vector<std::string> ids;
  for (const ClaimRow& claim : made.ledger.claims) {
    ids.push_back(claim.id);
    EXPECT_EQ(claim.optimization, "precision");
  }
  EXPECT_THAT(ids, ElementsAre("exact", "reversed", "lr-alone"));
  EXPECT_TRUE(key_claim_fit(made.ledger, made.ledger.claims[0]).tested);
  const std::vector<std::string> notes = note_texts(made);
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_THAT(notes[0], test::names("'reversed'", "cell 'precision', half", "'full'"));
  EXPECT_THAT(notes[1], test::names("'lr-alone'", "precision differs too"));
}

// A key that is renamed would be refused nowhere any more.
TEST(KeyVariants, EveryKeyOfItsListsIsAKey) {
  std::set<std::string> all;
  for (const ConfigKey& key : config_keys()) all.insert(key.name);
  EXPECT_EQ(process_keys(all).size(), 9u);
  EXPECT_EQ(batch_keys(all).size(), 7u);
  EXPECT_EQ(model_keys(all).size(), 30u);
}

// A gate before an update would call another learning rate equal.
TEST(KeyVariants, NothingIsPromisedOfThem) {
  EXPECT_THAT(key_row("k", Equivalence::Objective, Unit::TrainStep).gates,
              ElementsAre(Gate::Finite));
  EXPECT_FALSE(equivalence_named("bitwise"));
  EXPECT_FALSE(equivalence_named("math"));
  EXPECT_TRUE(equivalence_named("statistical"));
}

} // namespace variants_test
} // namespace assay
