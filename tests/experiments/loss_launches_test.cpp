// Loss launches through the engine, with the fake worker, whose losses differ by 1 nat from seed to
// seed: a pair of two seeds would show.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "experiments/analysis/report.h"
#include "experiments/engine/runner.h"
#include "tests/analysis/synthetic_report.h"
#include "tests/experiments/support.h"
#include "tests/names.h"

namespace assay::test {
namespace loss_launches_test {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kMatrix = R"(
version = 1
[experiment]
name = "loss"
seed = 7
launches = 2
[trace]
rounds = 2
[quality]
seeds = 4
steps = 20
every = 2
margin = 0.02
[base]
preset = "tiny"
seed = 40
warmup_steps = 4
[[cell]]
name = "attention"
optimization = "varlen"
rounds = 3
)";

class LossLaunches : public testing::Test {
protected:
  RunSummary run(const std::string& behaviour) {
    const FakeBehaviour fake(behaviour + ";count=" + (scratch_ / "count"));
    return run_plan(plan_, scratch_ / "r", fake_options());
  }
  void take_only(const std::string& level) {
    plan_ = small_plan(scratch_, kMatrix + "levels = [\"" + level + "\"]\n");
  }
  LedgerData ledger() const { return value_or_throw(read_ledger(scratch_ / "r")); }
  static std::vector<LaunchRow> loss_rows(const LedgerData& data) {
    std::vector<LaunchRow> result;
    for (const LaunchRow& row : data.launches)
      if (row.kind == LaunchKind::Loss) result.push_back(row);
    return result;
  }
  static std::multiset<std::string> variants_in(const LedgerData& data, std::int64_t launch) {
    std::multiset<std::string> names;
    for (const VisitRow& visit : data.visits)
      if (visit.launch == launch && visit.round == 0)
        names.insert(data.variant(visit.variant).name);
    return names;
  }
  // `level` against the reference.
  static const Comparison& comparison(const Report& report, const std::string& level) {
    for (const Comparison& candidate : report.cells.at(0).comparisons)
      if (candidate.b == level && candidate.against_reference) return candidate;
    internal_error("no comparison of {}", level);
  }
  Scratch scratch_;
  Plan plan_ = small_plan(scratch_, kMatrix);
};

TEST_F(LossLaunches, ComeAfterTheTimedOnesAndTrainEveryVariantFromOneSeed) {
  std::set<std::string> shown;
  RunOptions options = fake_options();
  options.progress = [&](const RunProgress& p) {
    if (p.task.kind == LaunchKind::Loss) shown.insert(fmt::format("{}/{}", p.round, p.rounds));
    EXPECT_FALSE(p.warmup && p.task.kind == LaunchKind::Loss);
  };
  const FakeBehaviour fake("harm=0.001");
  EXPECT_EQ(run_plan(plan_, scratch_ / "r", options).outcome, RunSummary::Outcome::Complete);
  const LedgerData data = ledger();
  std::vector<std::string> order;
  for (const LaunchRow& l : data.launches)
    order.push_back(fmt::format("{} {}", to_string(l.kind), l.index));
  EXPECT_THAT(order,
              ElementsAre("parity 1",
                          "memory 1",
                          "timed 1",
                          "timed 2",
                          "loss 1",
                          "loss 2",
                          "loss 3",
                          "loss 4",
                          "traced 1"));
  EXPECT_THAT(shown, Contains("10/10"));
  for (const LaunchRow& launch : loss_rows(data)) {
    EXPECT_THAT(variants_in(data, launch.id), ElementsAre("mask_dense", "packed", "varlen"));
    int visits = 0;
    for (const VisitRow& visit : data.visits) {
      if (visit.launch != launch.id) continue;
      ++visits;
      EXPECT_FALSE(visit.warmup);
      EXPECT_EQ(visit.steps, 2);
      const double harm = data.variant(visit.variant).role == Role::Level ? 0.001 : 0;
      EXPECT_NEAR(*visit.loss, 40 + launch.index + 3 - 0.1 * visit.round + harm, 1e-9);
    }
    EXPECT_EQ(visits, 3 * 10);
  }
}

TEST_F(LossLaunches, AreJudgedByPairsOfOneSeed) {
  run("harm=0.001");
  const Report report = judge_results(ledger());
  EXPECT_TRUE(report.complete()) << testing::PrintToString(report.missing);
  const Comparison& varlen = comparison(report, "varlen");
  ASSERT_TRUE(varlen.loss);
  EXPECT_EQ(varlen.loss->result.quality, Quality::Equivalent);
  EXPECT_EQ(varlen.verdict.quality, Quality::Equivalent);
  ASSERT_EQ(varlen.loss->result.seeds.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    const SeedLoss& seed = varlen.loss->result.seeds[i];
    EXPECT_EQ(seed.seed, 41 + i);
    EXPECT_NEAR(seed.a, 40 + static_cast<double>(i + 1) + 3 - 0.8, 1e-9) << "last 3 of 10 visits";
    EXPECT_NEAR(seed.b - seed.a, 0.001, 1e-9);
  }
  EXPECT_EQ(report.cells[0].loss_curves.size(), 12u);
}

TEST_F(LossLaunches, HarmReachesTheVerdict) {
  run("harm=0.5");
  const Comparison varlen = comparison(judge_results(ledger()), "varlen");
  EXPECT_EQ(varlen.verdict.quality, Quality::Harmed);
  EXPECT_EQ(varlen.verdict.reasons.at(0).code, ReasonCode::LossTest);
}

TEST_F(LossLaunches, ADeadOneIsRepeatedWhole) {
  EXPECT_EQ(run("die=loss/2/8").outcome, RunSummary::Outcome::Complete);
  const auto rows = loss_rows(ledger());
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_EQ(rows[1].state, LaunchState::Failed) << "8 of 10 rounds are no training";
  EXPECT_EQ(rows[2].index, 2);
  EXPECT_EQ(rows[2].attempt, 1);
  EXPECT_EQ(rows[2].state, LaunchState::Complete);
  EXPECT_EQ(comparison(judge_results(ledger()), "varlen").loss->result.seeds.size(), 4u);
}

TEST_F(LossLaunches, TooFewSeedsAreUnknown) {
  const RunSummary summary = run("error=loss/*/0");
  EXPECT_EQ(summary.progress.failed, 4);
  EXPECT_THAT(summary.progress.problems, Contains(test::names("attention loss", "1 to 4")));
  const Report report = judge_results(ledger());
  EXPECT_THAT(report.missing, Contains("attention: 4 of 4 loss launches (4 failed)"));
  EXPECT_EQ(comparison(report, "varlen").verdict.quality, Quality::Unknown);
  EXPECT_THAT(texts(comparison(report, "varlen").verdict.reasons),
              Contains(test::names("0 of at", "least 4")));
}

TEST_F(LossLaunches, AVariantThatLosesItsLossLeavesThemAlone) {
  const RunSummary summary = run("retire=varlen/5;retire_in=loss;harm=0.001");
  EXPECT_EQ(summary.outcome, RunSummary::Outcome::Complete);
  EXPECT_THAT(summary.progress.problems, Contains(test::names("varlen", "nan,", "round 6 of")));
  const LedgerData data = ledger();
  const auto rows = loss_rows(data);
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_EQ(rows[0].state, LaunchState::Failed);
  for (std::size_t i = 1; i < rows.size(); ++i)
    EXPECT_THAT(variants_in(data, rows[i].id), ElementsAre("mask_dense", "packed"));
  EXPECT_EQ(variants_in(data, data.launches.back().id).count("varlen"), 1u) << "still traced";
  const Report report = judge_results(data);
  const Comparison& varlen = comparison(report, "varlen");
  EXPECT_EQ(varlen.verdict.quality, Quality::Harmed);
  EXPECT_EQ(varlen.evidence.quality_reason.code, ReasonCode::LossLost);
  EXPECT_THAT(varlen.evidence.quality_reason.text, test::names("nan,", "round 6 of"));
  EXPECT_EQ(varlen.loss->result.quality, Quality::Harmed) << "the baseline stood at that seed";
  EXPECT_EQ(comparison(report, "packed").verdict.quality, Quality::Equivalent);
}

TEST_F(LossLaunches, TheReferenceAloneShowsThatItStandsWhereTheOnlyLevelFell) {
  take_only("varlen");
  const RunSummary summary = run("retire=varlen/5;retire_in=loss");
  EXPECT_EQ(summary.outcome, RunSummary::Outcome::Complete);
  EXPECT_EQ(summary.progress.not_run, 3) << "the other seeds have nothing to show";
  const LedgerData data = ledger();
  const auto rows = loss_rows(data);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1].state, LaunchState::Complete);
  EXPECT_THAT(variants_in(data, rows[1].id), ElementsAre("mask_dense"));
  EXPECT_EQ(comparison(judge_results(data), "varlen").loss->result.quality, Quality::Harmed);
}

TEST_F(LossLaunches, ALostReferenceBlocksThemAndNothingElse) {
  const RunSummary summary = run("retire=mask_dense/5;retire_in=loss");
  EXPECT_EQ(summary.outcome, RunSummary::Outcome::Complete);
  EXPECT_EQ(summary.progress.not_run, 4);
  const LedgerData data = ledger();
  EXPECT_EQ(loss_rows(data).size(), 1u);
  EXPECT_EQ(data.launches.back().kind, LaunchKind::Traced);
  const Comparison varlen = comparison(judge_results(data), "varlen");
  EXPECT_EQ(varlen.verdict.quality, Quality::Unknown);
  EXPECT_THAT(texts(varlen.verdict.reasons), Contains(test::names("nan,", "round 6 of")));
}

} // namespace loss_launches_test
} // namespace assay::test
