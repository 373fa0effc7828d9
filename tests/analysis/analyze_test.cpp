#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <functional>

#include "core/statistics/statistics.h"
#include "experiments/analysis/judging/judge.h"
#include "experiments/analysis/report.h"
#include "experiments/analysis/wording.h"
#include "experiments/demo/synthetic_ledger.h"
#include "tests/analysis/synthetic_report.h"
#include "tests/synthetic_cells.h"

namespace assay {
namespace analyze_test {

using synthetic::step_time_claim;
using synthetic::synthetic_ledger;
using synthetic::SyntheticCell;
using synthetic::SyntheticPlan;
using synthetic::two_level_cell;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

double judging_seconds(int rounds) {
  SyntheticPlan plan = plan_of(two_level_cell(0.1));
  plan.rounds = rounds;
  const LedgerData data = synthetic_ledger(plan);
  const std::clock_t start = std::clock();
  EXPECT_TRUE(first(judge_results(data)).effect);
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

// CPU time grows with the rounds, not with their square, which would take 256 times as long.
TEST(Effect, JudgingTimeGrowsWithTheRounds) {
  const double few = judging_seconds(2'000), many = judging_seconds(32'000);
  EXPECT_LT(many, 70 * few) << few << " s and " << many << " s";
}

// Ten rounds of two variants with exact times, one launch: every figure can be done by hand.
TEST(Effect, ByHand) {
  LedgerData data = synthetic_ledger(plan_of(two_level_cell(0)));
  const double ratios[] = {.90, .80, .95, .85, .70, .92, .88, .99, .60, .91};
  for (VisitRow& visit : data.visits) {
    const int i = (visit.round + 7) % 10; // timed rounds start at 3
    visit.wall_ns = visit.variant == 2 ? std::llround(1e9 * ratios[i]) : 1'000'000'000;
  }
  const Report report = judge_results(data);
  const Effect& effect = *first(report).effect;
  EXPECT_NEAR(effect.theta.value, (std::log(.88) + std::log(.90)) / 2, 1e-9);
  EXPECT_NEAR(effect.total_time.value, std::log(.85), 1e-9);
  EXPECT_NEAR(effect.a_ns, 1e9, 1);
  EXPECT_EQ(effect.launches.size(), 5u);
  EXPECT_EQ(effect.launches[0].pairs, 40u);
  EXPECT_EQ(first(report).verdict.speed, Speed::Faster);
}

// Six rounds with one long visit in ten: by the scatter of pairs alone the figure was 130 % beside
// an interval of 24 points.
TEST(Effect, TheSmallestDetectableOneIsThatOfTheInterval) {
  SyntheticCell cell = two_level_cell(-0.1);
  SyntheticPlan plan = plan_of(cell);
  plan.rounds = 6;
  plan.tail_share = 0.1;
  plan.tail_size = 1;
  const auto effect = [&](int launches) {
    plan.launches = plan.cells[0].timed_launches = launches;
    return *first(judge_results(synthetic_ledger(plan))).effect;
  };
  for (const int launches : {5, 8}) {
    const Effect found = effect(launches);
    EXPECT_NEAR(
        *found.mde / found.theta.judged->half_width(), launches == 5 ? 1.355 : 1.383, 0.002);
    EXPECT_TRUE(found.launches_for_sesoi);
  }
  const Effect three = effect(3);
  EXPECT_TRUE(three.theta.judged);
  EXPECT_FALSE(three.mde);
  EXPECT_FALSE(three.launches_for_sesoi);
}

TEST(Effect, RoundsThatLackAVariantAndWarmupAreNoPairs) {
  LedgerData data = synthetic_ledger(plan_of(two_level_cell(0)));
  std::erase_if(data.visits, [](const VisitRow& v) { return v.variant == 2 && v.round == 10; });
  EXPECT_EQ(first(judge_results(data)).pairs.pairs, 5 * 39);
}

TEST(Effect, PartialLaunchCountsFromHalfItsRounds) {
  LedgerData data = synthetic_ledger(plan_of(two_level_cell(-0.1)));
  const auto launch = std::find_if(data.launches.begin(),
                                   data.launches.end(),
                                   [](const LaunchRow& l) { return l.kind == LaunchKind::Timed; });
  launch->state = LaunchState::Partial;
  const auto keep = [&](int rounds) {
    LedgerData copy = data;
    std::erase_if(copy.visits, [&](const VisitRow& v) {
      return v.launch == launch->id && v.round >= 3 + rounds;
    });
    return first(judge_results(copy)).effect->launches.size();
  };
  EXPECT_EQ(keep(20), 5u);
  EXPECT_EQ(keep(19), 4u);
  launch->state = LaunchState::Failed;
  EXPECT_EQ(keep(40), 4u);
  launch->state = LaunchState::Running;
  EXPECT_EQ(keep(40), 4u);
}

TEST(Effect, ALaunchOfWhichLittleIsLeftDoesNotCount) {
  LedgerData data = synthetic_ledger(plan_of(two_level_cell(-0.1)));
  const Report whole = judge_results(data);
  const LaunchEffect& launch = first(whole).effect->launches.at(1);
  std::size_t left = launch.pairs;
  for (VisitRow& visit : data.visits)
    if (visit.launch == launch.launch && !visit.warmup && visit.variant == 2 &&
        2 * left >= launch.pairs) {
      visit.covariates.steal_share = 0.5;
      --left;
    }
  const Report report = judge_results(data);
  EXPECT_EQ(first(report).effect->launches.size(), 4u);
  EXPECT_EQ(first(report).effect_all->launches.size(), 5u);
  EXPECT_EQ(launches_text(report.cells[0]), "5 of 5 launches, 4 usable");
  const Comparison& four = first(report);
  EXPECT_EQ(four.pairs.pairs, 4 * 40) << "a launch that does not count counts nowhere";
  EXPECT_EQ(four.pairs.excluded, 0);
  EXPECT_GT(four.pairs.all_excluded(), 20);
  EXPECT_EQ(four.verdict.validity, Validity::Ok) << "four clean launches are not disturbed";
  EXPECT_EQ(four.verdict.speed, Speed::Inconclusive) << "FASTER needs five";
  EXPECT_TRUE(has_reason(four.verdict, ReasonCode::Provisional));
  EXPECT_NE(all_pairs_line(four), "");
}

TEST(Effect, NoSingleOutlierIsDropped) {
  LedgerData data = synthetic_ledger(plan_of(two_level_cell(0)));
  const double before = first(judge_results(data)).effect->total_time.value;
  for (VisitRow& visit : data.visits)
    if (visit.variant == 2 && visit.round == 20) visit.wall_ns *= 40;
  const Comparison after = first(judge_results(data));
  EXPECT_GT(after.effect->total_time.value, before + 0.4);
  EXPECT_EQ(after.pairs.excluded, 0);
}

TEST(Effect, TailTagWhenRareStallsTurnTheSign) {
  LedgerData data = synthetic_ledger(plan_of(two_level_cell(-0.05)));
  for (VisitRow& visit : data.visits)
    if (visit.variant == 2 && visit.round % 8 == 0) visit.wall_ns *= 5;
  const Report report = judge_results(data);
  EXPECT_TRUE(first(report).verdict.has(Tag::Tail));
  EXPECT_EQ(first(report).verdict.speed, Speed::Inconclusive) << "tokens per second are total time";
  EXPECT_TRUE(has_reason(first(report).verdict, ReasonCode::TotalTimeDisagrees));
  EXPECT_FALSE(has_reason(first(report).verdict, ReasonCode::Tail)) << "one fact, one reason";
  EXPECT_TRUE(has_reason(first(report).verdict, ReasonCode::TotalTimeDisagrees));
}

TEST(Effect, PositionAndDeviceTimes) {
  SyntheticCell cell = two_level_cell(-0.1);
  cell.device_times = true;
  LedgerData data = synthetic_ledger(plan_of(cell));
  for (VisitRow& visit : data.visits)
    visit.wall_ns =
        std::llround(static_cast<double>(visit.wall_ns) * std::exp(0.04 * visit.position));
  const Report report = judge_results(data);
  EXPECT_NEAR(first(report).position->value, 0.04 * 4 / 3, 0.02)
      << "mean distance of two of three positions is 4/3";
  EXPECT_NEAR(first(report).device->value, -0.1, 0.01);
  for (VisitRow& visit : data.visits)
    if (visit.round == 12) visit.device_ns.reset();
  EXPECT_FALSE(first(judge_results(data)).device) << "never from a part of the pairs";
}

TEST(Exclusion, DisturbedPairsGoAndTheAllDataResultStays) {
  SyntheticCell cell = two_level_cell(-0.1);
  cell.disturbed_share = 0.03;
  LedgerData data = synthetic_ledger(plan_of(cell));
  for (VisitRow& visit : data.visits)
    if (*visit.covariates.steal_share > 0.05 && visit.variant == 2) visit.wall_ns *= 3;
  const Comparison comparison = first(judge_results(data));
  EXPECT_GT(comparison.pairs.excluded, 3);
  EXPECT_EQ(comparison.verdict.validity, Validity::Ok);
  EXPECT_LT(comparison.effect->total_time.value, comparison.effect_all->total_time.value - 0.02);
}

TEST(Exclusion, TooManyOrByArmIsContended) {
  SyntheticCell cell = two_level_cell(-0.1);
  cell.disturbed_share = 0.2;
  const Report many = judge_results(synthetic_ledger(plan_of(cell)));
  EXPECT_EQ(first(many).verdict.validity, Validity::Contended);
  EXPECT_TRUE(has_reason(first(many).verdict, ReasonCode::PairsDisturbed));
  EXPECT_TRUE(first(many).effect_all);
  cell.disturbed_share = 0;
  cell.disturbed_b_share = 0.1;
  const Report by_arm = judge_results(synthetic_ledger(plan_of(cell)));
  EXPECT_EQ(first(by_arm).verdict.validity, Validity::Contended);
  EXPECT_TRUE(has_reason(first(by_arm).verdict, ReasonCode::ArmsDisturbed));
  EXPECT_THAT(first(by_arm).verdict.reasons.front().text, HasSubstr("--redo " + cell.name))
      << "no launch is disturbed beyond the limit: `--redo disturbed` would measure none again";
  EXPECT_NE(all_pairs_line(first(by_arm)), "") << "both figures are printed";
}

// A plan of two launches can give no other verdict, however undisturbed they were.
TEST(Exclusion, TooFewLaunchesAreIncompleteAlsoWhereTheyWereDisturbed) {
  SyntheticCell cell = two_level_cell(-0.1);
  cell.disturbed_share = 0.2;
  cell.timed_launches = 2;
  const Comparison comparison = first(judge_results(synthetic_ledger(plan_of(cell))));
  EXPECT_TRUE(comparison.pairs.contended);
  EXPECT_EQ(comparison.verdict.validity, Validity::Incomplete);
}

TEST(Exclusion, WhereEveryPairIsDisturbedTheResultWithAllStandsThere) {
  LedgerData data = synthetic_ledger(plan_of(two_level_cell(-0.1)));
  for (VisitRow& visit : data.visits) visit.covariates.steal_share = 0.5;
  const Comparison comparison = first(judge_results(data));
  EXPECT_EQ(comparison.verdict.validity, Validity::Contended);
  EXPECT_FALSE(comparison.effect);
  EXPECT_EQ(comparison.pairs.pairs, 0);
  EXPECT_NEAR(comparison.effect_all->theta.value, -0.1, 0.01);
  EXPECT_TRUE(has_reason(comparison.verdict, ReasonCode::PairsDisturbed));
  EXPECT_NE(all_pairs_line(comparison), "");
}

// The candidate keeps its own threads waiting in every second visit; one visit per launch is beyond
// the limit, too few for a count of visits to tell.
TEST(Exclusion, ALevelThatDelaysItselfIsDetectedByItsMeanDelay) {
  LedgerData data = synthetic_ledger(plan_of(two_level_cell(-0.1)));
  for (VisitRow& visit : data.visits)
    if (visit.variant == 2 && visit.round % 2 == 0)
      visit.covariates.run_delay_share = visit.round == 20 ? 0.3 : 0.15;
  const Comparison delayed = first(judge_results(data));
  EXPECT_GT(delayed.pairs.imbalance_p, kArmImbalanceAlpha);
  EXPECT_LT(*delayed.pairs.delay_p, kArmImbalanceAlpha);
  EXPECT_GT(*delayed.pairs.delay_gap, kDelayGap);
  EXPECT_EQ(delayed.verdict.validity, Validity::Contended);
  EXPECT_TRUE(has_reason(delayed.verdict, ReasonCode::ArmsDisturbed));
  for (VisitRow& visit : data.visits)
    if (visit.round == 20) visit.covariates.run_delay_share = 0.15;
  EXPECT_EQ(first(judge_results(data)).verdict.validity, Validity::Ok)
      << "where no pair is excluded nothing is hidden";
}

TEST(Exclusion, EachCovariateHasItsLimit) {
  const auto with = [](auto field, auto value) {
    Covariates covariates;
    covariates.*field = value;
    return disturbance(covariates);
  };
  EXPECT_EQ(disturbance(Covariates{}), "");
  EXPECT_EQ(with(&Covariates::steal_share, 0.05), "");
  EXPECT_EQ(with(&Covariates::steal_share, 0.12), "steal 12 %");
  EXPECT_EQ(with(&Covariates::run_delay_share, 0.20), "");
  EXPECT_EQ(with(&Covariates::run_delay_share, 0.21), "threads wait 21 % of the time for a core");
  EXPECT_EQ(with(&Covariates::throttle_reasons, 0x4), "") << "the software power cap is an effect";
  EXPECT_EQ(with(&Covariates::throttle_reasons, 0x8), "hardware throttle (slowdown)");
  EXPECT_EQ(with(&Covariates::foreign_processes, 1), "1 other process on the GPU");
}

// Launches of unequal speed and size: the candidate's pooled median would be the smaller one.
TEST(EffectOfPairs, UnitTimesAgreeWithTheEffectBesideThem) {
  PairSet pairs;
  const auto add = [&](double a, double b, int rounds) {
    LaunchPairs launch;
    launch.launch = launch.index = static_cast<int>(pairs.launches.size()) + 1;
    for (int round = 0; round < rounds; ++round) {
      Pair pair;
      pair.round = round;
      pair.a_ns = a;
      pair.b_ns = b;
      pair.log_ratio = std::log(b / a);
      launch.pairs.push_back(pair);
    }
    pairs.launches.push_back(launch);
  };
  add(13e6, 12.8e6, 30);
  add(15e6, 18e6, 10);
  const Effect effect = *estimate_effect(pairs, {});
  EXPECT_GT(effect.theta.value, 0.05);
  EXPECT_NEAR(effect.a_ns, 13e6, 1);
  EXPECT_NEAR(std::log(effect.b_ns / effect.a_ns), effect.theta.value, 1e-12);
}

TEST(EndToEnd, EvaluationSharesTheInterval) {
  SyntheticCell cell = two_level_cell(std::log(0.5));
  cell.unit = "evaluation"; // 15 ms against 7.5 ms, every 100 steps of 30 ms
  LedgerData data = synthetic_ledger(plan_of(cell));
  data.claims = {step_time_claim(0.001, 0.004)};
  const Report report = judge_results(data);
  const double a = first(report).effect->a_ns;
  EXPECT_NEAR(
      first(report).end_to_end->log_ratio.value, std::log1p(-0.5 * a / (100 * 30e6 + a)), 2e-5);
  EXPECT_TRUE(report.claims[0].end_to_end);
  EXPECT_EQ(report.claims[0].state, ClaimState::Confirmed);
}

TEST(Claims, OfTimeNeedFiveLaunchesAndTheSignOfTotalTime) {
  SyntheticCell cell = two_level_cell(-0.1);
  LedgerData data = synthetic_ledger(plan_of(cell));
  data.claims = {step_time_claim(0.05, 0.2)};
  EXPECT_EQ(judge_results(data).claims.at(0).state, ClaimState::Confirmed);
  for (VisitRow& visit : data.visits)
    if (visit.variant == 2 && visit.round % 8 == 0) visit.wall_ns *= 5;
  const ClaimResult by_total = judge_results(data).claims.at(0);
  EXPECT_EQ(by_total.state, ClaimState::Undecided);
  EXPECT_EQ(by_total.reason.code, ReasonCode::TotalTimeDisagrees);
  cell.timed_launches = 4;
  data = synthetic_ledger(plan_of(cell));
  data.claims = {step_time_claim(0.05, 0.2)};
  const ClaimResult few = judge_results(data).claims.at(0);
  EXPECT_EQ(few.state, ClaimState::Undecided);
  EXPECT_EQ(few.reason.code, ReasonCode::Provisional);
}

// A claim that cannot be judged gives the verdict's own reason.
TEST(Claims, TakeTheReasonOfAVerdictThatIsNotOk) {
  SyntheticCell cell = two_level_cell(-0.1);
  cell.timed_launches = 2;
  LedgerData data = synthetic_ledger(plan_of(cell));
  data.claims = {step_time_claim(0.05, 0.2)};
  const Report report = judge_results(data);
  EXPECT_EQ(report.claims.at(0).state, ClaimState::Undecided);
  EXPECT_EQ(report.claims.at(0).reason.code, ReasonCode::TooFewLaunches);
  EXPECT_EQ(report.claims.at(0).reason.text, first(report).verdict.reasons.at(0).text);
}

TEST(Claims, AnUndecidedOneSaysWhatItReachesAndHolds) {
  SyntheticCell cell = two_level_cell(-0.06);
  SyntheticPlan plan = plan_of(cell);
  plan.launch_sd = 0.06;
  LedgerData data = synthetic_ledger(plan);
  data.claims = {step_time_claim(0.08, 0.12)};
  const ClaimResult result = judge_results(data).claims.at(0);
  ASSERT_EQ(result.state, ClaimState::Undecided);
  EXPECT_EQ(result.reason.code, ReasonCode::IntervalUndecided);
  EXPECT_THAT(result.reason.text, AllOf(HasSubstr("+8 to +12"), HasSubstr("+1.00 %")));
  data.claims = {step_time_claim(0.8, 0.9)};
  const ClaimResult excluded = judge_results(data).claims.at(0);
  ASSERT_EQ(excluded.state, ClaimState::Undecided);
  EXPECT_EQ(excluded.reason.code, ReasonCode::IntervalUndecided);
  EXPECT_THAT(excluded.reason.text, HasSubstr("+80 to +90"));
}

// A claim that is simply confirmed needs no reason; every other state says what its interval shows.
TEST(Claims, EveryStateButConfirmedHasItsReason) {
  const auto judged = [](double effect, double lo, double hi) {
    SyntheticPlan plan = plan_of(two_level_cell(std::log(effect)));
    plan.noise = 0.005;
    LedgerData data = synthetic_ledger(plan);
    data.claims = {step_time_claim(lo, hi)};
    return judge_results(data).claims.at(0);
  };
  struct Case {
    double effect, lo, hi;
    ClaimState state;
    const char* names;
  };
  for (const Case& c : {Case{0.9, 0.20, 0.30, ClaimState::Shortfall, "+20 to +30"},
                        Case{0.9, 0.10, 0.15, ClaimState::Consistent, "+10 to +15"},
                        Case{0.9, 0.02, 0.04, ClaimState::Confirmed, "+2 to +4"}, // exceeds
                        Case{1.0, 0.08, 0.12, ClaimState::Refuted, "+1.00 %"},
                        Case{1.1, 0.08, 0.12, ClaimState::Opposite, "-1.00 %"}}) {
    const ClaimResult result = judged(c.effect, c.lo, c.hi);
    EXPECT_EQ(to_string(result.state), to_string(c.state));
    EXPECT_EQ(to_string(result.reason.code), "interval_decides") << to_string(c.state);
    EXPECT_THAT(result.reason.text,
                AllOf(HasSubstr(c.names),
                      HasSubstr(gains_text(ClaimMetric::StepTime, *result.gain_judged))));
  }
  const ClaimResult confirmed = judged(0.9, 0.05, 0.15);
  EXPECT_EQ(confirmed.state, ClaimState::Confirmed);
  EXPECT_TRUE(confirmed.reason.empty()) << confirmed.reason.text;
}

TEST(Claims, ThroughputIsConvertedAndSeveralVerdictsNarrowAlpha) {
  SyntheticPlan plan = plan_of(two_level_cell(std::log(1 / 1.25)));
  ClaimRow claim = step_time_claim(0.20, 0.22);
  claim.metric = "throughput";
  ClaimRow unmet = step_time_claim(0.1, 0.2);
  unmet.id = "unmet";
  unmet.unmet = "FP8 does not exist here";
  ClaimRow gpu = step_time_claim(0.1, 0.2);
  gpu.id = "gpu";
  gpu.requires_json = R"({"device":"cuda"})";
  ClaimRow memory = step_time_claim(0.1, 0.2);
  memory.id = "memory";
  memory.metric = "peak_memory";
  ClaimRow elsewhere = step_time_claim(0.1, 0.2);
  elsewhere.id = "elsewhere";
  elsewhere.optimization = "nothing";
  plan.claims = {unmet, claim, gpu, memory, elsewhere};
  SyntheticCell second = two_level_cell(0);
  second.name = second.optimization = "second";
  plan.cells.push_back(second);
  const Report report = judge_results(synthetic_ledger(plan));
  EXPECT_EQ(report.judgements, 2) << "one verdict against the reference in each of two cells";
  EXPECT_DOUBLE_EQ(report.judged_alpha, 0.025);
  const Estimate& theta = first(report).effect->theta;
  EXPECT_NEAR(theta.judged->half_width() / theta.at_95->half_width(),
              student_quantile(1 - 0.025 / 2, 4) / student_quantile(1 - 0.05 / 2, 4),
              1e-9);
  ASSERT_EQ(report.claims.size(), 5u);
  EXPECT_EQ(report.claims[0].state, ClaimState::NotTested);
  EXPECT_EQ(report.claims[0].reason.code, ReasonCode::NotTestable);
  EXPECT_EQ(report.claims[0].reason.text, "FP8 does not exist here");
  EXPECT_NEAR(*report.claims[1].gain, 0.25, 0.02);
  EXPECT_EQ(claim_state_text(report.claims[1]), "CONFIRMED (exceeds)");
  EXPECT_EQ(report.claims[2].state, ClaimState::ConditionsNotMet);
  EXPECT_EQ(report.claims[2].reason.code, ReasonCode::ConditionsNotMet);
  EXPECT_TRUE(report.claims[2].gain) << "what was measured is still shown";
  EXPECT_EQ(report.claims[3].state, ClaimState::Refuted) << "no memory was saved";
  EXPECT_EQ(report.claims[4].reason.code, ReasonCode::NoCell);
  EXPECT_EQ(first(report).verdict.claim, ClaimState::Refuted)
      << "a kept claim never hides a broken one";
  EXPECT_FALSE(first(report).verdict.has(Tag::Exceeds));
}

TEST(Verdicts, AlsoCompareAddsItsPairs) {
  SyntheticCell cell = two_level_cell(-0.1);
  cell.levels.push_back({.name = "faster", .effect = -0.2});
  cell.also_compare = {{"fast", "faster"}};
  const Report report = judge_results(synthetic_ledger(plan_of(cell)));
  ASSERT_EQ(report.cells[0].comparisons.size(), 3u);
  const Comparison& extra = report.cells[0].comparisons[2];
  EXPECT_EQ(report.judgements, 3) << "every verdict that is printed";
  EXPECT_EQ(comparison_text(extra), "fast -> faster");
  EXPECT_NEAR(extra.effect->theta.value, -0.1, 0.01);
  EXPECT_FALSE(extra.against_reference);
  EXPECT_EQ(extra.verdict.quality, Quality::Bitwise);
}

TEST(Verdicts, SpeedRule) {
  const auto speed = [](double low, double high) {
    Estimate theta;
    theta.judged = Interval{std::log1p(low), std::log1p(high)};
    return judge_speed(theta, 0.01);
  };
  EXPECT_EQ(speed(-0.05, -0.02), Speed::Faster);
  EXPECT_EQ(speed(0.001, 0.02), Speed::Slower);
  EXPECT_EQ(speed(-0.009, 0.009), Speed::NoEffect);
  EXPECT_EQ(speed(-0.009, -0.004), Speed::NoEffect) << "true, and too small to be of interest";
  EXPECT_EQ(speed(-0.02, 0.005), Speed::Inconclusive);
  EXPECT_EQ(judge_speed(Estimate{}, 0.01), Speed::Inconclusive);
}

TEST(Verdicts, FasterNeedsFiveLaunchesAndTotalTimeAndNoEffectThree) {
  Effect effect;
  effect.theta.value = effect.total_time.value = -0.1;
  effect.theta.judged = Interval{-0.12, -0.08};
  effect.launches.resize(4);
  EXPECT_EQ(decided_speed(effect, 0.01), Speed::Inconclusive);
  effect.launches.resize(5);
  EXPECT_EQ(decided_speed(effect, 0.01), Speed::Faster);
  effect.total_time.value = 0.02;
  EXPECT_EQ(decided_speed(effect, 0.01), Speed::Inconclusive);
  effect.theta.judged = Interval{-0.004, 0.004};
  effect.launches.resize(3);
  EXPECT_EQ(decided_speed(effect, 0.01), Speed::NoEffect);
  effect.launches.resize(2);
  EXPECT_EQ(decided_speed(effect, 0.01), Speed::Inconclusive);
}

TEST(Verdicts, UnfinishedLedgersSayWhatIsMissing) {
  EXPECT_TRUE(judge_results(LedgerData{}).cells.empty());
  SyntheticCell cell = two_level_cell(-0.1);
  for (int timed = 0; timed <= 5; ++timed) {
    cell.timed_launches = timed;
    cell.memory_launches = 0;
    const Report report = judge_results(synthetic_ledger(plan_of(cell)));
    const Verdict& verdict = first(report).verdict;
    EXPECT_EQ(first(report).effect.has_value(), timed > 0);
    EXPECT_EQ(verdict.validity, timed < 3 ? Validity::Incomplete : Validity::Ok) << timed;
    EXPECT_EQ(verdict.has(Tag::Provisional), timed == 3 || timed == 4) << timed;
    EXPECT_EQ(verdict.speed, timed < 5 ? Speed::Inconclusive : Speed::Faster) << timed;
    EXPECT_THAT(report.missing, Contains("ema_swap: memory launch"));
    if (timed < 5) {
      EXPECT_THAT(report.missing,
                  Contains(fmt::format("ema_swap: {} of 5 timed launches", 5 - timed)));
    }
  }
  cell.timed_launches = 5;
  cell.parity_launches = 0;
  const Report no_parity = judge_results(synthetic_ledger(plan_of(cell)));
  EXPECT_EQ(first(no_parity).verdict.validity, Validity::Incomplete);
  EXPECT_EQ(first(no_parity).verdict.quality, Quality::Unknown);
  EXPECT_EQ(first(no_parity).verdict.reasons.at(0).code, ReasonCode::NoParityLaunch);
}

TEST(Verdicts, UnsteadyLaunchesAreTagged) {
  SyntheticCell cell = two_level_cell(-0.1);
  cell.steady = false;
  const Report report = judge_results(synthetic_ledger(plan_of(cell)));
  EXPECT_TRUE(first(report).verdict.has(Tag::NotSteady));
  EXPECT_EQ(first(report).verdict.validity, Validity::Ok);
}

} // namespace analyze_test
} // namespace assay
