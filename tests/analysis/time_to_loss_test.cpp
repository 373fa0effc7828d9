// Steps and time to a declared loss: arithmetic of a curve, pairs by seed, and what is not said.
#include <gmock/gmock.h>

#include <cmath>

#include "experiments/analysis/report.h"
#include "experiments/demo/synthetic_ledger.h"
#include "experiments/evidence/loss/time_to_loss.h"
#include "experiments/report/render.h"
#include "tests/names.h"

namespace assay {
namespace time_to_loss_test {

using synthetic::SyntheticCell;
using synthetic::SyntheticPlan;

TEST(StepsToLoss, InterpolatesBetweenTheMeansOfTheLastVisits) {
  const std::vector<double> curve{8, 7, 6, 5, 4, 3}; // means of three: 7, 6, 5, 4
  EXPECT_DOUBLE_EQ(steps_to_loss(curve, 3, 10, 6.9).value().steps, 31);
  EXPECT_DOUBLE_EQ(steps_to_loss(curve, 3, 10, 5.5).value().steps, 45);
  EXPECT_FALSE(steps_to_loss(curve, 3, 10, 6.9).value().at_once);
  for (const double target : {7., 9.}) { // there from the first mean on: at most its steps
    EXPECT_DOUBLE_EQ(steps_to_loss(curve, 3, 10, target).value().steps, 30);
    EXPECT_TRUE(steps_to_loss(curve, 3, 10, target).value().at_once);
  }
  EXPECT_FALSE(steps_to_loss(curve, 3, 10, 3.9));
  EXPECT_FALSE(steps_to_loss({}, 3, 10, 3.9));
}

// The baseline falls by 0.1 a visit from 9, the candidate twice as fast; the candidate's step takes
// 20 % more time.
LedgerData ledger_of(double target, double candidate_slope = 0.2) {
  SyntheticCell cell;
  cell.equivalence = "objective";
  cell.levels = {{.name = "slow"}, {.name = "fast", .effect = std::log(1.2)}};
  cell.loss_seeds = 4;
  SyntheticPlan plan;
  plan.noise = 0.001;
  plan.tail_share = 0;
  plan.cells = {cell};
  LedgerData data = synthetic::synthetic_ledger(plan);
  data.cells[0].loss_target = target;
  for (VisitRow& visit : data.visits) {
    const auto launch = std::find_if(data.launches.begin(), data.launches.end(), [&](auto& row) {
      return row.id == visit.launch;
    });
    if (launch->kind != LaunchKind::Loss) continue;
    const bool fast = data.variant(visit.variant).level == "fast";
    visit.loss = 9 - (fast ? candidate_slope : 0.1) * (visit.round + 1) + 0.001 * launch->index;
  }
  return data;
}

const TimeToLoss& of(const Report& report) {
  return *report.cells.at(0).comparisons.at(0).time_to_loss;
}

TEST(TimeToLoss, PairsSeedsAndMultipliesByTheTimeOfAStep) {
  const Report report = judge_results(ledger_of(8));
  const TimeToLoss& to = of(report);
  EXPECT_EQ(to.seeds, 4);
  ASSERT_TRUE(to.steps && to.time);
  // Means of three visits: 9 - 0.1 (n - 1) and 9 - 0.2 (n - 1), so 11 and 6 visits but for the
  // thousandths of the seeds.
  EXPECT_NEAR(to.steps->value, std::log(6.0 / 11), 0.005);
  EXPECT_NEAR(to.time->value, std::log(1.2 * 6 / 11), 0.01);
  EXPECT_LT(to.time->at_95->lower, to.time->value);
  EXPECT_NEAR(to.b_seconds / to.a_seconds, 1.2 * 6 / 11, 0.01);
  EXPECT_GT(to.a_seconds, 0);
}

// Steps are the baseline's, and a unit is a token: 1000 of them in such a step.
TEST(TimeToLoss, OfUnitTokenCountsTokens) {
  LedgerData data = ledger_of(8);
  const double a_seconds = of(judge_results(data)).a_seconds; // a step takes its unit time
  data.cells[0].unit = "token";
  for (VisitRow& visit : data.visits) visit.tokens = 1000 * visit.steps;
  for (const VariantRow& variant : data.variants) {
    StepCostRow cost;
    cost.variant = variant.id, cost.tokens = 1000;
    data.costs.push_back(cost);
  }
  const Report report = judge_results(data);
  EXPECT_EQ(of(report).tokens_per_step, 1000);
  EXPECT_NEAR(of(report).a_seconds, a_seconds, 1e-9);
  EXPECT_THAT(render_json(report), test::names("tokens to loss 8", "K tokens"));
  // Of a comparison whose baseline is not the cell's: in its own steps, here of 2000 tokens.
  data.costs[1].tokens = 2000;
  const CellView view = cell_views(data).front();
  ASSERT_EQ(view.levels[0]->id, data.costs[1].variant);
  const TimeToLoss turned =
      time_to_loss(view, *view.levels[0], *view.baseline, std::nullopt, 0.05).value();
  EXPECT_EQ(turned.tokens_per_step, 2000);
  EXPECT_NEAR(turned.a_steps, of(report).b_steps / 2, 0.01);
}

TEST(TimeToLoss, GivesNoFigureWhereASeedDoesNotReachIt) {
  const Report report = judge_results(ledger_of(8, 0.0));
  EXPECT_EQ(of(report).a_reached, 4);
  EXPECT_EQ(of(report).b_reached, 0);
  EXPECT_FALSE(of(report).steps);
  EXPECT_FALSE(of(report).time);
}

// The first means are 8.8 and 8.6 and the thousandths of the seeds: both sides, one, neither.
TEST(TimeToLoss, GivesNoFigureWhereTheFirstMeanIsThereAlready) {
  for (const auto& [target, a, b] : {std::tuple(8.9, 4, 4), {8.7, 0, 4}, {8.5, 0, 0}}) {
    const Report report = judge_results(ledger_of(target));
    const TimeToLoss& to = of(report);
    EXPECT_EQ(to.a_reached + to.b_reached, 8);
    EXPECT_EQ(to.a_at_once, a);
    EXPECT_EQ(to.b_at_once, b);
    EXPECT_EQ(to.steps.has_value(), a + b == 0) << target;
    EXPECT_EQ(to.time.has_value(), a + b == 0);
    if (b == 0) continue;
    EXPECT_THAT(render_json(report), test::names("first 30 steps", "lower target"));
  }
}

TEST(TimeToLoss, IsAbsentWithoutATarget) {
  EXPECT_FALSE(judge_results(ledger_of(0)).cells.at(0).comparisons.at(0).time_to_loss);
}

} // namespace time_to_loss_test
} // namespace assay
