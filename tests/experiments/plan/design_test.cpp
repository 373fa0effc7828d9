// Cells with a design: steps become variants, pairs and contrasts of a plan.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/experiments/plan/plan_fixture.h"
#include "tests/names.h"

namespace assay {
namespace design_test {

using testing::ElementsAre;
using testing::Pair;

// Line 5 is [base], 7 the cell, 10 the first step.
const std::string kPlain = test::kHead + "launches = 5\n[base]\npreset = \"tiny\"\n[[cell]]\n";

std::string cell(const std::string& design, const std::string& steps) {
  return kPlain + "name = \"phases\"\ndesign = \"" + design + "\"\n[cell.steps]\n" + steps;
}

const std::string kSteps = "clip = { set = { grad_clip = 2.0 } }\n"
                           "amp = { set = { precision = \"bf16\" } }\n"
                           "slow = { set = { lr = 0.001, beta1 = 0.8 } }\n";

class DesignPlanTest : public test::PlanTest {
protected:
  Plan plan(const std::string& matrix) const { return test::small_plan(scratch_, matrix); }
  std::string mistake(const std::string& matrix) const {
    const Result<Matrix> parsed =
        parse_matrix(matrix, "m.toml", {"base.data=\"" + scratch_.write("corpus.txt", "t") + "\""});
    if (!parsed) return parsed.error().message;
    const Result<Plan> made = make_plan(*parsed, {});
    return made ? "" : made.error().message;
  }
};

TEST_F(DesignPlanTest, StepsAddUpInTheOrderOfTheFile) {
  const Plan made = plan(cell("ladder", kSteps));
  std::vector<std::string> names;
  for (const VariantRow& variant : made.ledger.variants) names.push_back(variant.name);
  EXPECT_THAT(names,
              ElementsAre("base", "clip", "clip+amp", "clip+amp+slow", "amp", "slow", "control"));
  const auto config = [&](std::size_t i) {
    return nlohmann::json::parse(made.ledger.variants[i].config_json);
  };
  EXPECT_EQ(config(0)["precision"], "fp32");
  EXPECT_EQ(config(2)["precision"], "bf16");
  EXPECT_EQ(config(2)["grad_clip"], 2.0);
  EXPECT_EQ(config(2)["lr"], config(0)["lr"]);
  EXPECT_EQ(config(3)["beta1"], 0.8);
  EXPECT_EQ(config(4)["grad_clip"], config(0)["grad_clip"]);
  EXPECT_EQ(config(6), config(0));
  const OptimizationRow& row = made.ledger.optimizations.at(0);
  EXPECT_EQ(row.design, "ladder");
  EXPECT_EQ(row.scope, kScopeOfKeys);
  EXPECT_EQ(row.equivalence, "objective");
  EXPECT_EQ(row.levels[2].summary, "grad_clip = 2.0, precision = \"bf16\"");
  EXPECT_THAT(row.also_compare,
              ElementsAre(Pair("base", "clip"),
                          Pair("clip", "clip+amp"),
                          Pair("clip+amp", "clip+amp+slow"),
                          Pair("base", "amp"),
                          Pair("base", "slow"),
                          Pair("base", "clip+amp+slow")));
  ASSERT_EQ(row.contrasts.size(), 1u);
  EXPECT_EQ(row.contrasts[0].kind, "interaction");
  EXPECT_THAT(row.contrasts[0].terms,
              ElementsAre(ContrastTerm{"clip", "clip+amp", 1},
                          ContrastTerm{"base", "amp", -1},
                          ContrastTerm{"clip+amp", "clip+amp+slow", 1},
                          ContrastTerm{"base", "slow", -1}));
}

TEST_F(DesignPlanTest, ContrastsShareAlphaAndHaveAnMdeOfTheirOwn) {
  const PlanEstimate ladder = estimate(plan(cell("ladder", kSteps)));
  EXPECT_EQ(ladder.judgements, 7);
  ASSERT_EQ(ladder.cells[0].contrast_mde_factors.size(), 1u);
  // Four pairs: the rungs share a variant on opposite sides, the others the base on one side.
  EXPECT_NEAR(ladder.cells[0].contrast_mde_factors[0], std::sqrt(4 - 2 / 3. + 2 / 3.), 1e-12);
  EXPECT_EQ(estimate(plan(cell("ablation", kSteps))).judgements, 5);
  const PlanEstimate factorial = estimate(plan(cell("factorial", kSteps)));
  EXPECT_EQ(factorial.judgements, 10); // 4 pairs, 3 main effects, 3 interactions
  EXPECT_EQ(factorial.cells[0].variants, 9u);
  EXPECT_NEAR(factorial.cells[0].contrast_mde_factors[0], 0.5, 1e-12); // 4 pairs, 1/4 each
}

// The hash names what is judged, too.
TEST_F(DesignPlanTest, TheHashCoversTheDesign) {
  const auto hash = [&](const std::string& matrix) { return plan(matrix).ledger.spec.hash; };
  const std::string two = "clip = { set = { grad_clip = 2.0 } }\n"
                          "amp = { set = { precision = \"bf16\" } }\n";
  EXPECT_EQ(hash(cell("ladder", two)), hash(cell("ladder", two)));
  EXPECT_NE(hash(cell("ladder", two)), hash(cell("factorial", two)));
  EXPECT_THAT(plan(cell("ladder", two)).ledger.spec.plan_json,
              test::names("\"design\":\"ladder\"", "[\"clip\",\"clip+amp\",1.0]"));
}

TEST_F(DesignPlanTest, MistakesNameTheirLine) {
  EXPECT_EQ(mistake(cell("ladder", kSteps)), "");
  EXPECT_THAT(mistake(cell("laddr", kSteps)), test::names("m.toml:9", "'laddr'", "'ladder'"));
  EXPECT_THAT(mistake(kPlain + "name = \"n\"\n[cell.steps]\n" + kSteps),
              test::names("m.toml:9", "`design`", "ablation"));
  EXPECT_THAT(mistake(kPlain + "name = \"n\"\ndesign = \"ladder\"\n"),
              test::names("m.toml:9", "[cell.steps]"));
  EXPECT_THAT(mistake(kPlain + "design = \"ladder\"\n[cell.steps]\n" + kSteps),
              test::names("m.toml:9", "`name`"));
  EXPECT_THAT(mistake(cell("ladder", "clip = { set = { grad_clip = 2.0 } }\n")),
              test::names("m.toml:10", "2 to 12, not 1"));
  EXPECT_THAT(mistake(cell("ladder", std::string(130, 'x') + " = {}\n" + kSteps)),
              test::names("m.toml:10", "names", "120"));
  EXPECT_THAT(mistake(cell("ladder", "base = {}\n" + kSteps)),
              test::names("m.toml:11", "\"base\""));
  EXPECT_THAT(mistake(cell("ladder", "control = {}\n" + kSteps)),
              test::names("m.toml:11", "\"control\""));
  EXPECT_THAT(mistake(cell("ladder", "\"a+b\" = {}\n" + kSteps)), test::names("m.toml:11", "'+'"));
  EXPECT_THAT(mistake(cell("ladder", "x = 3\n" + kSteps)), test::names("m.toml:11", "'x'", "set"));
  EXPECT_THAT(mistake(cell("ladder", "x = { set = { lrr = 1 } }\n" + kSteps)),
              test::names("m.toml:11", "'lr'"));
  EXPECT_THAT(mistake(kPlain +
                      "name = \"n\"\nreference = \"amp\"\ndesign = \"ladder\"\n"
                      "[cell.steps]\n" +
                      kSteps),
              test::names("m.toml:9", "`reference`"));
  EXPECT_THAT(mistake(kPlain +
                      "optimization = \"varlen\"\nname = \"n\"\ndesign = \"ladder\"\n"
                      "[cell.steps]\n" +
                      kSteps),
              test::names("m.toml:", "`optimization` and `steps`"));
  EXPECT_THAT(mistake(cell("ladder", kSteps) + "[cell.variants]\na = {}\nb = {}\n"),
              test::names("m.toml:", "`variants` and `steps`"));
}

TEST_F(DesignPlanTest, AFactorialHasAtMostFiveSteps) {
  const std::string five = "grad_clip = 2.0;lr = 0.01;beta1 = 0.8;beta2 = 0.9;adam_eps = 0.01;";
  std::string steps;
  char name = 'a';
  for (std::size_t at = 0, end = five.find(';'); end != std::string::npos;
       at = end + 1, end = five.find(';', at))
    steps += fmt::format("{} = {{ set = {{ {} }} }}\n", name++, five.substr(at, end - at));
  EXPECT_EQ(plan(cell("factorial", steps)).ledger.variants.size(), 33u);
  EXPECT_THAT(mistake(cell("factorial", steps + "f = { set = { weight_decay = 0.3 } }\n")),
              test::names("m.toml:10", "2 to 5, not 6"));
}

TEST_F(DesignPlanTest, StepsThatCannotBeComparedAreRefused) {
  // Of every design, also where no variant has the step alone.
  for (const char* design : {"ladder", "ablation", "factorial"}) {
    const auto with = [&](const std::string& step) {
      return mistake(cell(design, fmt::format("{}x = {{ set = {{ {} }} }}\n", kSteps, step)));
    };
    EXPECT_THAT(with("seed = 2"), test::names("m.toml:14", "step 'x'", "seed")) << design;
    EXPECT_THAT(with("seq_len = 64"), test::names("m.toml:14", "seq_len")) << design;
    EXPECT_THAT(with("residual16 = \"no\""), test::names("m.toml:14")) << design;
    EXPECT_THAT(with("ema_decay = 0.99"),
                test::names("m.toml:14", "step 'x'", "changes nothing")) // its default
        << design;
    EXPECT_THAT(with("lr = 0.01"), test::names("m.toml:14", "'slow' and 'x'", "'lr'")) << design;
    EXPECT_THAT(with("lr = 0.01, beta1 = 0.7"), test::names("both set 'lr'", "both set 'beta1'"));
  }
}

// A contrast needs its variants in one round.
TEST_F(DesignPlanTest, VariantsThatDoNotFitTogetherAreRefused) {
  PlanOptions options;
  const std::int64_t all = estimate(plan(cell("factorial", kSteps))).cells[0].memory_bytes;
  options.host_memory_bytes = static_cast<std::int64_t>(static_cast<double>(all) / 0.7) - 1000;
  EXPECT_THAT(problem(cell("factorial", kSteps), options),
              test::names("m.toml:9", "factorial", "8 variants", "memory"));
}

} // namespace design_test
} // namespace assay
