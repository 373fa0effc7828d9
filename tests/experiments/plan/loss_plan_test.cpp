// What a plan makes of [quality]: which cells train for their loss, how long, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "experiments/engine/launch_requests.h"
#include "tests/experiments/plan/plan_fixture.h"
#include "tests/names.h"

namespace assay {
namespace loss_plan_test {

using test::kHead;
using test::PlanTest;
using test::small_plan;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

const std::string kQuality = "[quality]\nseeds = 5\nsteps = 40\nevery = 4\nmargin = 0.03\n";

TEST_F(PlanTest, LossLaunchesOfRowsThatMayDiffer) {
  const std::string cells = "[[cell]]\noptimization = \"varlen\"\n"       // objective
                            "[[cell]]\noptimization = \"grad_scaler\"\n"; // bitwise
  const Plan plan = small_plan(scratch_, kHead + cells + kQuality);
  const CellRow& varlen = plan.ledger.cells.at(0);
  EXPECT_EQ(varlen.loss_seeds, 5);
  EXPECT_EQ(varlen.loss_rounds, 10);
  EXPECT_EQ(varlen.loss_steps, 4);
  EXPECT_DOUBLE_EQ(varlen.loss_margin, 0.03);
  EXPECT_EQ(plan.ledger.cells.at(1).loss_seeds, 0) << "equal bit by bit unless it asks";
  const Plan asked = small_plan(scratch_, kHead + cells + "quality = { seeds = 6 }\n" + kQuality);
  EXPECT_EQ(asked.ledger.cells.at(1).loss_seeds, 6);
  EXPECT_DOUBLE_EQ(asked.ledger.cells.at(1).loss_margin, 0.03);
  EXPECT_EQ(small_plan(scratch_, kHead + cells).ledger.cells.at(0).loss_seeds, 0);
}

// Between two losses every variant trains on the same tokens, by steps of its own.
TEST_F(PlanTest, LossLaunchesOfUnitTokenHaveEqualTokens) {
  const auto of = [&](const std::string& two) {
    return kHead + "[[cell]]\nname = \"batch\"\nunit = \"token\"\n[cell.variants]\n" +
           "one = { set = { batch_rows = 1, warmup_steps = 4 } }\ntwo = { set = { " + two +
           " } }\n" + kQuality;
  };
  const Plan plan = small_plan(scratch_, of("batch_rows = 2, warmup_steps = 2"));
  const LedgerData& ledger = plan.ledger;
  EXPECT_EQ(ledger.cells.at(0).loss_seeds, 5);
  const LaunchRequest request =
      launch_request_of(ledger, Schedule{"abc", 1}, {ledger.cells.at(0).id, LaunchKind::Loss, 1});
  EXPECT_EQ(request.unit, "token");
  EXPECT_EQ(request.visit_steps, 4); // the baseline's
  ASSERT_EQ(request.variants.size(), 2u);
  const auto steps = [&](std::size_t i) {
    return nlohmann::json::parse(request.variants.at(i).config_json).at("steps").get<int>();
  };
  EXPECT_EQ(steps(0), 40);
  EXPECT_EQ(steps(1), 20);
  EXPECT_EQ(request_of_variant(ledger, request, 1).visit_steps, 2);
  const auto note_of = [&](const std::string& two) {
    return testing::PrintToString(note_texts(small_plan(scratch_, of(two))));
  };
  EXPECT_THAT(note_of("batch_rows = 3, warmup_steps = 1"),
              test::names("no loss launches", "'two'", "every"));
  EXPECT_EQ(
      small_plan(scratch_, of("batch_rows = 2, warmup_steps = 16")).ledger.cells.at(0).loss_seeds,
      5)
      << "2 of 10 visits remain";
  EXPECT_THAT(problem(of("batch_rows = 2, warmup_steps = 17")),
              test::names("1 of at", "visits of 2 steps", "17 warm-up", "20 of 'two'"));
  EXPECT_THAT(note_of("batch_rows = 1, packing = \"padded\""),
              test::names("no loss launches", "padding"));
}

TEST_F(PlanTest, RefusesLossLaunchesThatCanShowNothing) {
  const std::string cell =
      kHead + "[[cell]]\noptimization = \"varlen\"\n[quality]\nmargin = 0.03\n";
  const auto problem_of = [&](const std::string& quality) { return problem(cell + quality); };
  EXPECT_THAT(problem_of("steps = 1\nevery = 1\n"), test::names("0 of at", "least 2"));
  EXPECT_THAT(problem_of("steps = 20\nevery = 2\n"), HasSubstr("20 warm-up steps"))
      << "all of it is warm-up";
  EXPECT_THAT(problem_of("steps = 24\nevery = 4\n"),
              test::names("cell 'varlen': [quality]:", "1 of at"));
  EXPECT_EQ(problem_of("steps = 28\nevery = 4\n"), "");
  EXPECT_EQ(problem_of("steps = 4\nevery = 2\nseeds = 0\n"), "");
  EXPECT_THAT(note_texts(small_plan(scratch_, cell + "steps = 40\nseeds = 1\n")),
              Contains(HasSubstr("seeds = 1 ")));
  std::string absurd = kHead + "[[cell]]\noptimization = \"varlen\"\n" + kQuality;
  EXPECT_THAT(note_texts(small_plan(scratch_, absurd)), Not(Contains(HasSubstr("[quality]"))));
  absurd.replace(absurd.find("margin = 0.03"), 13, "margin = 1.50");
  EXPECT_THAT(note_texts(small_plan(scratch_, absurd)), Contains(HasSubstr("margin = 1.5 ")));
}

TEST_F(PlanTest, TheHashHoldsWhatTheLossIsJudgedBy) {
  const std::string cell = kHead + "[[cell]]\noptimization = \"varlen\"\n";
  const auto hash_of = [&](const std::string& quality) {
    return small_plan(scratch_, cell + quality).ledger.spec.hash;
  };
  const std::string base = hash_of(kQuality);
  EXPECT_EQ(base, hash_of(kQuality));
  std::set<std::string> all{base, hash_of("")};
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{"seeds = 5", "seeds = 6"},
                                                        {"steps = 40", "steps = 44"},
                                                        {"every = 4", "every = 8"},
                                                        {"margin = 0.03", "margin = 0.04"}}) {
    std::string changed = kQuality;
    all.insert(hash_of(changed.replace(changed.find(from), from.size(), to)));
  }
  EXPECT_EQ(all.size(), 6u);
}

// Three variants without the control, five seeds: 5 (1.2 + 3 (.1 + 40 x .02)) s more.
TEST_F(PlanTest, EstimatesTheTimeOfLossLaunches) {
  const std::string cell = kHead + "[[cell]]\noptimization = \"varlen\"\n";
  const ProbeResult probe{20e6, 0, 0, 0.1};
  const PlanEstimate with = estimate(small_plan(scratch_, cell + kQuality), {{1, probe}});
  const PlanEstimate without = estimate(small_plan(scratch_, cell), {{1, probe}});
  EXPECT_EQ(with.cells[0].loss_seeds, 5);
  EXPECT_EQ(with.cells[0].loss_steps, 40);
  EXPECT_NEAR(*with.seconds - *without.seconds, 5 * (1.2 + 3 * (0.1 + 40 * 0.02)), 1e-9);
}

} // namespace loss_plan_test
} // namespace assay
