// What makes a cell invalid, and what a report alarms about.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "core/statistics/statistics.h"
#include "experiments/analysis/judging/judge.h"
#include "experiments/analysis/report.h"
#include "experiments/analysis/report_lines.h"
#include "experiments/analysis/wording.h"
#include "experiments/demo/synthetic_ledger.h"
#include "experiments/report/render.h"
#include "experiments/report/section.h"
#include "tests/analysis/synthetic_report.h"
#include "tests/names.h"
#include "tests/synthetic_cells.h"

namespace assay {
namespace analyze_validity_test {

using synthetic::step_time_claim;
using synthetic::synthetic_ledger;
using synthetic::SyntheticCell;
using synthetic::SyntheticPlan;
using synthetic::two_level_cell;
using testing::AllOf;
using testing::Contains;
using testing::Field;
using testing::HasSubstr;
using testing::Not;

TEST(Validity, UnequalWorkNamesItself) {
  LedgerData data = synthetic_ledger(plan_of(two_level_cell(-0.1)));
  for (VisitRow& visit : data.visits)
    if (visit.variant == 2 && visit.round == 7) visit.tokens = 250;
  const Report report = judge_results(data);
  EXPECT_EQ(first(report).verdict.validity, Validity::Invalid);
  EXPECT_EQ(first(report).verdict.reasons.at(0).code, ReasonCode::UnequalWork);
  EXPECT_THAT(first(report).verdict.reasons.at(0).text,
              test::names("timed launch 1", "round 5", "256 against 250"));
}

// What a scaler skips is part of what it costs: no mismatch of work, but no bit-equal training.
TEST(Validity, SkippedScalerStepsAreReportedNotAMismatch) {
  LedgerData data = synthetic_ledger(plan_of(two_level_cell(-0.1)));
  for (VisitRow& visit : data.visits)
    if (visit.variant == 2 && visit.round == 7) visit.skipped_steps = 1;
  const Report report = judge_results(data);
  EXPECT_EQ(first(report).verdict.validity, Validity::Ok);
  EXPECT_THAT(texts(first(report).verdict.reasons),
              Contains("the loss scaler skipped 0 steps of the baseline and 5 of the candidate"));
  EXPECT_EQ(first(report).verdict.quality, Quality::Unknown);
}

// A launch that other work disturbed is left out and turns the sign of the effect of all pairs.
TEST(Validity, AnEffectWhoseSignTheDisturbedPairsTurnIsRemarked) {
  for (const double effect : {-0.05, 0.05}) {
    LedgerData data = synthetic_ledger(plan_of(two_level_cell(effect)));
    const auto timed = std::ranges::find(data.launches, LaunchKind::Timed, &LaunchRow::kind);
    for (VisitRow& visit : data.visits)
      if (visit.launch == timed->id) visit.covariates.steal_share = 0.5;
    EXPECT_FALSE(has_reason(first(judge_results(data)).verdict, ReasonCode::ExclusionTurnsSign));
    for (VisitRow& visit : data.visits)
      if (visit.launch == timed->id && visit.variant == 2)
        visit.wall_ns = std::llround(static_cast<double>(visit.wall_ns) * std::exp(-20 * effect));
    const Report report = judge_results(data);
    ASSERT_LT(first(report).effect->theta.value * first(report).effect_all->theta.value, 0);
    EXPECT_TRUE(has_reason(first(report).verdict, ReasonCode::ExclusionTurnsSign));
    EXPECT_THAT(render_json(report), HasSubstr("\"exclusion_turns_sign\""));
    EXPECT_THAT(texts(first(report).verdict.reasons),
                Contains(test::names("other sign",
                                     effect_text(first(report).effect->theta),
                                     effect_text(first(report).effect_all->theta))));
  }
}

TEST(Launches, TheHeaderCountsWhatTheEffectUses) {
  SyntheticCell cell = two_level_cell(-0.1);
  EXPECT_EQ(launches_text(judge_results(synthetic_ledger(plan_of(cell))).cells[0]),
            "5 of 5 launches");
  cell.timed_launches = 9;
  LedgerData merged = synthetic_ledger(plan_of(cell)); // three directories of one plan
  merged.spec.launches = 3;
  std::int64_t last = 0;
  for (LaunchRow& launch : merged.launches)
    if (launch.kind == LaunchKind::Timed) {
      launch.index = (launch.index - 1) % 3 + 1;
      last = launch.id;
    }
  EXPECT_EQ(launches_text(judge_results(merged).cells[0]), "9 launches of 3 planned");
  for (VisitRow& visit : merged.visits)
    if (visit.launch == last) visit.covariates.steal_share = 0.5;
  EXPECT_EQ(launches_text(judge_results(merged).cells[0]), "9 launches of 3 planned, 8 usable");
  for (VisitRow& visit : merged.visits) visit.covariates.steal_share = 0.5;
  const Report disturbed = judge_results(merged);
  EXPECT_EQ(launches_text(disturbed.cells[0]), "9 launches of 3 planned, none usable");
  EXPECT_EQ(control_text(disturbed.cells[0]), "A/A control: no usable pairs (machine busy)");
}

TEST(Validity, ControlAlarmNeedsSizeAndEvidence) {
  SyntheticCell cell = two_level_cell(-0.1);
  cell.control_effect = 0.05;
  const Report broken = judge_results(synthetic_ledger(plan_of(cell)));
  EXPECT_TRUE(broken.cells[0].control->alarm);
  EXPECT_EQ(first(broken).verdict.validity, Validity::Invalid);
  EXPECT_EQ(first(broken).verdict.reasons.at(0).code, ReasonCode::ControlAlarm);
  EXPECT_NE(find_alarm(broken, AlarmCode::ControlDiffers), nullptr);
  SyntheticPlan tiny = plan_of(cell);
  tiny.cells[0].control_effect = 0.008; // significant, below the smallest effect of interest
  tiny.noise = 0.001;
  tiny.tail_share = 0;
  const Report small = judge_results(synthetic_ledger(tiny));
  EXPECT_LT(*small.cells[0].control->comparison.effect->theta.p, kControlAlarmP);
  EXPECT_FALSE(small.cells[0].control->alarm);
}

// Calls in any launch count, of any variant; the comparison keeps its verdict.
TEST(Alarms, AFallbackInATimedLaunchShows) {
  LedgerData data = synthetic_ledger(plan_of(two_level_cell(-0.1)));
  EXPECT_EQ(find_alarm(judge_results(data), AlarmCode::Fallback), nullptr);
  const VariantRow& fast = data.variants[1];
  for (const LaunchRow& launch : data.launches)
    if (launch.kind == LaunchKind::Timed && launch.index <= 2)
      data.metrics.push_back({launch.id, fast.id, "fallback/mla_attention", "calls", 12, ""});
  const Report report = judge_results(data);
  const Alarm* alarm = find_alarm(report, AlarmCode::Fallback);
  ASSERT_NE(alarm, nullptr);
  EXPECT_EQ(alarm->cell, report.cells[0].cell.id);
  EXPECT_THAT(alarm->text, test::names("fast ", "mla_attention", "24 calls in"));
  EXPECT_EQ(to_string(alarm->code), "fallback");
  EXPECT_EQ(first(report).verdict.validity, Validity::Ok);
}

// In the parity launch the level shows the reference's span instead of its own: no verdict.
TEST(Validity, AFallbackInTheParityLaunchIsNotEngaged) {
  LedgerData data = synthetic_ledger(plan_of(two_level_cell(-0.1)));
  const std::int64_t fast = data.variants[1].id;
  for (MetricRow& metric : data.metrics)
    if (metric.variant == fast && metric.path == "engaged/ema_swap/fast")
      metric.path = "engaged/ema_swap/slow";
  const Report report = judge_results(data);
  EXPECT_EQ(first(report).verdict.validity, Validity::NotEngaged);
}

TEST(Evidence, NamesTheKernelsThatRan) {
  LedgerData data = synthetic_ledger(plan_of(two_level_cell(-0.1)));
  EXPECT_EQ(first(judge_results(data)).evidence.ran, "");
  for (const LaunchRow& launch : data.launches)
    if (launch.kind == LaunchKind::Parity) {
      data.metrics.push_back(
          {launch.id, data.variants[0].id, "kernel/flash_varlen", "count", 8, ""});
      data.metrics.push_back(
          {launch.id, data.variants[1].id, "kernel/cudnn_documents", "count", 8, ""});
    }
  EXPECT_EQ(first(judge_results(data)).evidence.ran,
            "flash_varlen x 8 in slow, cudnn_documents x 8 in fast");
}

TEST(Validity, MixedBuildsAreInvalid) {
  LedgerData data = synthetic_ledger(plan_of(two_level_cell(-0.1)));
  data.launches[2].identity.build = "other";
  EXPECT_EQ(first(judge_results(data)).verdict.reasons.at(0).code, ReasonCode::MixedBuilds);
}

TEST(Validity, MixedThreadCountsAreInvalid) {
  LedgerData data = synthetic_ledger(plan_of(two_level_cell(-0.1)));
  EXPECT_EQ(first(judge_results(data)).verdict.validity, Validity::Ok);
  for (LaunchRow& launch : data.launches)
    if (launch.kind == LaunchKind::Timed && launch.index == 2) launch.identity.threads = 1;
  const Report report = judge_results(data);
  EXPECT_EQ(first(report).verdict.validity, Validity::Invalid);
  EXPECT_EQ(first(report).verdict.reasons.at(0).code, ReasonCode::MixedThreads);
  const Alarm* mixed = find_alarm(report, AlarmCode::MixedEnvironment);
  ASSERT_NE(mixed, nullptr);
  EXPECT_EQ(mixed->cell, report.cells[0].cell.id);
  EXPECT_THAT(mixed->text, HasSubstr("threads: 1, 2;"));
}

// One rule for the planned launches: the cell's own, else the experiment's.
TEST(Launches, OfACellCountForIt) {
  SyntheticCell cell = two_level_cell(-0.1);
  for (const int own : {3, 6}) {
    cell.timed_launches = own;
    LedgerData data = synthetic_ledger(plan_of(cell));
    data.cells[0].launches = own;
    const Report report = judge_results(data);
    EXPECT_EQ(report.cells[0].planned_launches, own);
    EXPECT_TRUE(report.complete()) << report.missing.at(0);
    EXPECT_EQ(launches_text(report.cells[0]), fmt::format("{0} of {0} launches", own));
  }
}

// One pair of many is in the table's column of all pairs; it is no alarm.
TEST(Alarms, ExcludedPairsOnlyWhereTheyMatter) {
  const auto excluded = Contains(Field(&Alarm::code, AlarmCode::PairsExcluded));
  // Both sides of the first `rounds` counted rounds; the candidate's time is multiplied.
  const auto disturb = [](LedgerData& data, std::int64_t launch, int rounds, double slower) {
    for (VisitRow& visit : data.visits)
      if (visit.launch == launch && !visit.warmup && visit.round < 3 + rounds) {
        visit.covariates.steal_share = 0.5;
        if (visit.variant == 2)
          visit.wall_ns = std::llround(static_cast<double>(visit.wall_ns) * slower);
      }
  };
  const LedgerData clean = synthetic_ledger(plan_of(two_level_cell(-0.1)));
  const std::int64_t launch = first(judge_results(clean)).effect->launches.at(1).launch;
  for (const int rounds : {1, 8, 9}) { // of 40: the limit of a launch is 20 %
    LedgerData data = clean;
    disturb(data, launch, rounds, 1);
    const Report report = judge_results(data);
    EXPECT_EQ(first(report).pairs.all_excluded(), rounds);
    EXPECT_EQ(first(report).verdict.validity, Validity::Ok);
    if (rounds < 9)
      EXPECT_THAT(report.alarms, Not(excluded)) << rounds;
    else
      EXPECT_THAT(report.alarms, excluded);
  }
  SyntheticCell same = two_level_cell(0);
  same.noise = 0.02;
  LedgerData turned = synthetic_ledger(plan_of(same));
  const Report before = judge_results(turned);
  EXPECT_EQ(first(before).verdict.speed, Speed::NoEffect);
  for (const LaunchEffect& each : first(before).effect->launches)
    disturb(turned, each.launch, 7, 10);
  const Report after = judge_results(turned);
  EXPECT_EQ(first(after).verdict.speed, Speed::NoEffect);
  EXPECT_THAT(after.alarms, excluded) << "with all pairs it is no longer within the SESOI";
}

// "attempt 2" is what the progress line, the event and the alarm call the second one.
// Nothing failed: the launch is repeated, and no verdict reads it.
TEST(Alarms, AnInterruptedLaunchIsNoFailure) {
  LedgerData data = synthetic_ledger(plan_of(two_level_cell(-0.1)));
  LaunchRow& launch = data.launches.back();
  launch.state = LaunchState::Failed;
  launch.reason = "interrupted after round 3";
  EXPECT_EQ(judge_results(data).launches.back().state(), "failed");
  const auto failed = Contains(Field(&Alarm::code, AlarmCode::LaunchFailed));
  EXPECT_THAT(judge_results(data).alarms, failed);
  data.events.push_back({launch.id, 3, "", "stopped", launch.reason});
  EXPECT_EQ(judge_results(data).launches.back().state(), "interrupted");
  EXPECT_THAT(judge_results(data).alarms, Not(failed));
}

std::string run_row(const LedgerData& data, const std::string& label) {
  for (const SectionRow& row : run_section(judge_results(data)).rows)
    if (row.texts.at(0) == label) return row.texts.at(1);
  return "";
}

std::string clocks_row(const LedgerData& data) {
  return run_row(data, "clocks");
}

// The identity of a launch has the threads of one of its processes.
TEST(Machine, ThreadsAreNamedWhereNoVariantHasItsOwn) {
  LedgerData data = synthetic_ledger(plan_of(two_level_cell(-0.1)));
  EXPECT_THAT(run_row(data, "machine"), HasSubstr(", 2 compute threads, "));
  for (VariantRow& variant : data.variants)
    variant.config_json = variant.role == Role::Level ? R"({"threads":2})" : R"({"threads":1})";
  EXPECT_THAT(run_row(data, "machine"), HasSubstr(", compute threads by variant, "));
}

TEST(Clocks, AreLockedByTheBoardsWordAlone) {
  LedgerData data = synthetic_ledger(plan_of(two_level_cell(-0.1)));
  EXPECT_EQ(clocks_row(data), "") << "no GPU";
  for (VisitRow& visit : data.visits) {
    visit.covariates.sm_clock_mhz = visit.warmup ? 345 : 1980;
    visit.covariates.throttle_reasons = 0;
  }
  EXPECT_EQ(clocks_row(data), "floating (1980 MHz in every visit)");
  data.visits.back().covariates.sm_clock_mhz = 1755;
  EXPECT_EQ(clocks_row(data), "floating (1755 to 1980 MHz)");
  for (VisitRow& visit : data.visits) {
    visit.covariates.sm_clock_mhz = 1410;
    visit.covariates.throttle_reasons = 0x2;
  }
  EXPECT_EQ(clocks_row(data), "locked at 1410 MHz");
  data.visits.back().covariates.throttle_reasons = 0;
  EXPECT_EQ(clocks_row(data), "floating (1410 MHz in every visit)");
}

TEST(Alarms, AttemptsAreCountedAsTheRunCountsThem) {
  SyntheticCell cell = two_level_cell(-0.1);
  cell.failed_attempt = "the worker died";
  const Report report = judge_results(synthetic_ledger(plan_of(cell)));
  const Alarm* failed = find_alarm(report, AlarmCode::LaunchFailed);
  ASSERT_NE(failed, nullptr);
  EXPECT_THAT(failed->text, AllOf(HasSubstr("attempt 1"), HasSubstr("the worker died")));
  EXPECT_EQ(alarm_text(report, *failed), "ema_swap: " + failed->text);
}

// Every field, in every kind of launch that counts: a parity launch under another LibTorch too.
TEST(Alarms, OtherSurroundingsAreNamedWithTheirValues) {
  const std::vector<std::pair<std::string, std::function<void(Identity&)>>> changes{
      {"usable cores: 1, 2", [](Identity& id) { id.cores = 1; }},
      {"processor: 2-core test CPU, another", [](Identity& id) { id.cpu = "another"; }},
      {"board: H200, unknown", [](Identity& id) { id.gpu = "H200"; }},
      {"driver: 580.1, unknown", [](Identity& id) { id.driver = "580.1"; }},
      {"CUDA: 12.8, unknown", [](Identity& id) { id.cuda = "12.8"; }},
      {"LibTorch: 2.10.0, 2.11.0", [](Identity& id) { id.libtorch = "2.10.0"; }},
      {"kernel: 5.15, 6.1", [](Identity& id) { id.kernel = "5.15"; }}};
  for (const auto& [words, change] : changes) {
    LedgerData data = synthetic_ledger(plan_of(two_level_cell(-0.1)));
    EXPECT_TRUE(judge_results(data).alarms.empty());
    const auto parity =
        std::find_if(data.launches.begin(), data.launches.end(), [](const LaunchRow& launch) {
          return launch.kind == LaunchKind::Parity;
        });
    change(parity->identity);
    const Report report = judge_results(data);
    ASSERT_EQ(report.alarms.size(), 1u);
    EXPECT_EQ(report.alarms[0].code, AlarmCode::MixedEnvironment);
    EXPECT_THAT(report.alarms[0].text, HasSubstr(words + ";"));
    EXPECT_EQ(first(report).verdict.validity, Validity::Ok);
    parity->state = LaunchState::Failed; // does not count
    EXPECT_EQ(find_alarm(judge_results(data), AlarmCode::MixedEnvironment), nullptr);
  }
}

// More launches would be needed in any case.
TEST(Validity, FewLaunchesThatWereAllDisturbedAreIncomplete) {
  synthetic::SyntheticPlan plan = plan_of(two_level_cell(-0.1));
  plan.cells[0].disturbed_share = 1;
  plan.cells[0].timed_launches = 2;
  EXPECT_EQ(first(judge_results(synthetic_ledger(plan))).verdict.validity, Validity::Incomplete);
  plan.cells[0].timed_launches = 3;
  EXPECT_EQ(first(judge_results(synthetic_ledger(plan))).verdict.validity, Validity::Contended);
}

// A launch that counts nowhere counts as one launch, and its pairs in no figure of pairs.
TEST(Validity, ALaunchThatIsLeftOutIsNoNumberOfPairs) {
  LedgerData data = synthetic_ledger(plan_of(two_level_cell(-0.1)));
  const std::int64_t launch = first(judge_results(data)).effect->launches.at(1).launch;
  int visits = 0;
  for (VisitRow& visit : data.visits) // 25 of 40 rounds, of the candidate alone
    if (visit.launch == launch && !visit.warmup && visit.variant == 2 && visits < 25) {
      visit.covariates.steal_share = 0.5;
      ++visits;
    }
  const Report report = judge_results(data);
  const PairSet& pairs = first(report).pairs;
  EXPECT_EQ(pairs.pairs, 160);
  EXPECT_EQ(pairs.excluded, 0);
  EXPECT_EQ(pairs.all_excluded(), 25);
  EXPECT_EQ(excluded_text(pairs), "1 of 5 launches is left out");
  const auto json =
      nlohmann::json::parse(render_json(report))["cells"][0]["comparisons"][0]["pairs"];
  EXPECT_TRUE(json["excluded_pairs"].empty());
  EXPECT_EQ(json["launches_left_out"][0]["pairs"], 40);
  EXPECT_EQ(json["launches_left_out"][0]["disturbed"], 25);
  EXPECT_EQ(launches_text(report.cells[0]), "5 of 5 launches, 4 usable");
  EXPECT_EQ(control_launches_text(report.cells[0]), "5 of 5 launches"); // it was not disturbed
}

} // namespace analyze_validity_test
} // namespace assay
