#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "core/trace/trace_file.h"
#include "experiments/analysis/explanations.h"
#include "experiments/demo/synthetic_ledger.h"
#include "experiments/report/explain_wording.h"
#include "experiments/report/render.h"
#include "experiments/report/render_explain.h"
#include "tests/analysis/attribution/trace_builder.h"
#include "tests/names.h"
#include "tests/synthetic_cells.h"

namespace assay {
namespace attribution_report_test {

using synthetic::kAutograd;
using synthetic::kMain;
using synthetic::step_time_claim;
using synthetic::synthetic_ledger;
using synthetic::SyntheticPlan;
using synthetic::two_level_cell;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr std::int64_t kStart = 1'700'000'000'000'000'000; // session start, UTC ns

// Ten rounds of one step: forward and backward of these lengths, ns, and a mm in each.
void write_trace(const std::string& path,
                 const std::string& variant,
                 std::int64_t forward,
                 std::int64_t backward,
                 bool audit_passes = true,
                 std::int64_t exposed = 0) {
  TraceWriter writer(path, kStart);
  TraceBatch batch;
  const NameId domain = writer.intern("assay");
  std::int64_t at = kStart + 1000;
  for (int round = 0; round < 10; ++round) {
    StepRow step;
    step.step = round;
    step.start = at;
    step.end = at + forward + backward + round; // `round` ns of host gap
    step.round = round;
    step.global_tid = kMain;
    batch.steps.push_back(step);
    const auto range = [&](const char* name, std::int64_t start, std::int64_t end) {
      RangeRow row;
      row.start = start;
      row.end = end;
      row.global_tid = kMain;
      row.text = writer.intern(name);
      row.domain = domain;
      batch.ranges.push_back(row);
    };
    range("step", at, step.end);
    range("forward", at, at + forward);
    range("backward", at + forward, at + forward + backward);
    if (exposed > 0) // inside backward
      range("exposed_communication", at + forward + 100, at + forward + 100 + exposed);
    for (const auto& [thread, start, length] :
         {std::tuple(kMain, at, forward), std::tuple(kAutograd, at + forward, backward)}) {
      OperatorRow op;
      op.start = start + 100;
      op.end = start + length - 100;
      op.global_tid = thread;
      op.name = writer.intern("aten::mm");
      batch.operators.push_back(op);
    }
    at = step.end + 10'000;
  }
  writer.append(batch);
  writer.set_info("cell", "ema_swap");
  writer.set_info("variant", variant);
  writer.set_info("device", "cpu");
  writer.add_audit({{"lost_records", audit_passes ? 0.0 : 3.0, 0, audit_passes, ""}});
  writer.finish();
}

class TraceEvidence : public testing::Test {
protected:
  void SetUp() override {
    directory_ = std::filesystem::temp_directory_path() /
                 ("assay_explain_" + std::to_string(::getpid()) + "_" +
                  testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_ / "traces");
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  // A ledger where "fast" saves 20 % of 15 ms, claimed 10 to 30 %, with a traced launch at the end.
  LedgerData ledger(const std::string& stages) {
    SyntheticPlan plan;
    plan.noise = 0.005;
    plan.tail_share = 0;
    plan.cells = {two_level_cell(std::log(0.8))};
    plan.claims = {step_time_claim(0.1, 0.3)};
    plan.claims[0].stages = stages;
    LedgerData data = synthetic_ledger(plan);
    data.cells[0].traced_rounds = 10;
    LaunchRow traced = data.launches.back();
    traced.id = 77;
    traced.kind = LaunchKind::Traced;
    data.launches.push_back(traced);
    return data;
  }
  std::string path(const std::string& variant) const {
    return (directory_ / trace_file_name(77, 0, variant)).string();
  }
  // The synthetic unit drifts by launch: traces are scaled to the reference's timed median.
  void write_traces(const LedgerData& data, bool audit_passes = true) {
    const Report report = judge_results(data);
    const Comparison& timed = report.cells[0].comparisons[0];
    const double a = timed.effect->a_ns, b = a * std::exp(timed.effect->theta.value);
    const auto forward = std::llround(0.4 * a), backward = std::llround(0.6 * a);
    const auto saved = std::llround(a - b);
    write_trace(path("slow"), "slow", forward, backward);
    // 60 % of what is saved is saved in forward
    write_trace(
        path("fast"), "fast", forward - saved * 6 / 10, backward - saved * 4 / 10, audit_passes);
  }
  Report explained(const LedgerData& data) {
    return judge_results(data, {.traces = directory_.string()});
  }

  std::filesystem::path directory_;
};

const Comparison& first_comparison(const Report& report) {
  return report.cells.at(0).comparisons.at(0);
}

TEST_F(TraceEvidence, ExplainsAndCloses) {
  const LedgerData data = ledger("forward,backward");
  write_traces(data);
  const Report report = explained(data);
  ASSERT_TRUE(first_comparison(report).explanation) << first_comparison(report).no_explanation;
  const Explanation& explanation = *first_comparison(report).explanation;
  EXPECT_EQ(explanation.a, "slow");
  EXPECT_EQ(explanation.b, "fast");
  EXPECT_EQ(explanation.cell, "ema_swap");
  EXPECT_EQ(explanation.traced_as, "host");
  EXPECT_EQ(explanation.waterfall.unusable, "");
  EXPECT_EQ(explanation.waterfall.pairs, 10u);
  EXPECT_TRUE(explanation.waterfall.closed) << closure_text(explanation.waterfall);
  EXPECT_NEAR(explanation.waterfall.a.traced_over_timed, 1, 1e-4);
  EXPECT_EQ(explanation.operators.size(), 2u);
  EXPECT_EQ(report.claims[0].state, ClaimState::Confirmed);
  EXPECT_TRUE(report.claims[0].reason.empty());
}

TEST_F(TraceEvidence, AClaimWhoseGainSitsElsewhereIsNotConfirmed) {
  const LedgerData data = ledger("forward");
  write_traces(data);
  const Report report = explained(data);
  EXPECT_EQ(report.claims[0].state, ClaimState::Consistent);
  EXPECT_EQ(report.claims[0].reason.code, ReasonCode::GainElsewhere);
  EXPECT_THAT(report.claims[0].reason.text, StartsWith("60 % "));
  EXPECT_EQ(first_comparison(report).verdict.claim, ClaimState::Consistent);
  EXPECT_EQ(headline(first_comparison(report).verdict).text, "faster, consistent with the claim");
}

TEST_F(TraceEvidence, TheClauseNeedsSeventyPercent) {
  const LedgerData data = ledger("forward");
  write_traces(data);
  Report report = judge_results(data);
  Comparison& comparison = report.cells[0].comparisons[0];
  ClaimResult& claim = report.claims[0];
  comparison.explanation.emplace();
  const auto state_at = [&](double share, ClaimState before) {
    comparison.explanation->waterfall.stages = {{Stage::Forward, 0, 0, -share, {}, true},
                                                {Stage::Backward, 0, 0, share - 1, {}, true}};
    claim.state = before;
    claim.exceeds = before == ClaimState::Confirmed;
    apply_stage_clause(claim, comparison);
    return claim.state;
  };
  EXPECT_EQ(state_at(0.71, ClaimState::Confirmed), ClaimState::Confirmed);
  EXPECT_TRUE(claim.exceeds);
  EXPECT_EQ(state_at(0.69, ClaimState::Confirmed), ClaimState::Consistent);
  EXPECT_TRUE(claim.exceeds); // the gain is as large, wherever it is
  EXPECT_EQ(state_at(0.10, ClaimState::Shortfall), ClaimState::Shortfall);
  comparison.explanation->waterfall.stages.clear(); // no gain in the traced steps at all
  claim.state = ClaimState::Confirmed;
  apply_stage_clause(claim, comparison);
  EXPECT_EQ(claim.state, ClaimState::Consistent);
  EXPECT_EQ(claim.reason.code, ReasonCode::NoGainInStages);
}

TEST_F(TraceEvidence, ADifferenceThatTheTracesDoNotShowConfirmsNothing) {
  const LedgerData data = ledger("forward,backward");
  write_traces(data);
  const Report report = explained(data);
  const auto state = [&](const Comparison& comparison) {
    ClaimResult claim = report.claims[0];
    apply_stage_clause(claim, comparison);
    return claim.state;
  };
  ASSERT_EQ(state(first_comparison(report)), ClaimState::Confirmed);
  Comparison apart = first_comparison(report);
  apart.explanation->waterfall.timed_a_ns = 1;
  apart.explanation->waterfall.closed = false;
  EXPECT_EQ(state(apart), ClaimState::Consistent) << "the parts do not add up";
  Comparison scattered = first_comparison(report);
  scattered.explanation->waterfall.traced_interval = Interval{-2e9, 1};
  EXPECT_EQ(state(scattered), ClaimState::Consistent) << "not significant";
}

TEST_F(TraceEvidence, ClaimsThatNameNoStageOrSpeakOfMemoryAreLeftAlone) {
  LedgerData data = ledger("");
  write_traces(data);
  EXPECT_EQ(explained(data).claims[0].state, ClaimState::Confirmed);
  data.claims[0].stages = "forward";
  data.claims[0].metric = "peak_memory";
  Report report = explained(data);
  report.claims[0].state = ClaimState::Confirmed;
  apply_stage_clause(report.claims[0], first_comparison(report));
  EXPECT_EQ(report.claims[0].state, ClaimState::Confirmed);
}

TEST_F(TraceEvidence, AClauseThatWasNotCheckedConfirmsNothing) {
  LedgerData data = ledger("forward,backward");
  const ClaimResult untraced = explained(data).claims[0]; // no trace files yet
  EXPECT_EQ(untraced.state, ClaimState::Consistent);
  EXPECT_EQ(untraced.reason.code, ReasonCode::StagesNotChecked);
  write_traces(data);
  EXPECT_EQ(explained(data).claims[0].state, ClaimState::Confirmed);
  data.launches.pop_back();
  data.cells[0].traced_rounds = 0;
  const Report none = explained(data);
  EXPECT_EQ(none.claims[0].state, ClaimState::Consistent) << "[trace] rounds = 0";
  EXPECT_EQ(first_comparison(none).verdict.claim, ClaimState::Consistent);
}

TEST_F(TraceEvidence, AFailedAuditChecksNoClaimAndSaysSo) {
  const LedgerData data = ledger("forward");
  EXPECT_EQ(judge_results(data).claims[0].reason.code, ReasonCode::StagesNotChecked);
  write_traces(data, false);
  const Report report = explained(data);
  EXPECT_EQ(report.claims[0].state, ClaimState::Consistent);
  EXPECT_EQ(report.claims[0].reason.code, ReasonCode::StagesNotChecked);
  EXPECT_THAT(report.claims[0].reason.text, HasSubstr("lost_records 3"));
  EXPECT_THAT(where_text(*first_comparison(report).explanation), HasSubstr("not usable"));
  for (const DiffRow& row : first_comparison(report).explanation->operators)
    EXPECT_EQ(row.status, DiffStatus::Unclear);
}

TEST_F(TraceEvidence, SaysWhyThereIsNoExplanation) {
  LedgerData data = ledger("");
  EXPECT_THAT(first_comparison(explained(data)).no_explanation, HasSubstr("traced launch"));
  std::ofstream(path("slow")) << "this is no database, only some text that is long enough";
  EXPECT_THAT(first_comparison(explained(data)).no_explanation,
              HasSubstr("traces/77.0.slow.sqlite"));
  data.launches.back().state = LaunchState::Failed;
  data.launches.back().reason = "no CUPTI";
  EXPECT_THAT(first_comparison(explained(data)).no_explanation, HasSubstr("no CUPTI"));
  data.launches.pop_back();
  EXPECT_THAT(first_comparison(explained(data)).no_explanation, HasSubstr("`assay status`"));
  data.cells[0].traced_rounds = 0;
  EXPECT_THAT(first_comparison(explained(data)).no_explanation, HasSubstr("[trace] rounds"));
}

TEST_F(TraceEvidence, TheLatestCompleteTracedLaunchCounts) {
  LedgerData data = ledger("");
  write_traces(data);
  LaunchRow later = data.launches.back();
  later.id = 78;
  later.state = LaunchState::Failed;
  data.launches.push_back(later);
  EXPECT_TRUE(first_comparison(explained(data)).explanation);
  data.launches.back().state = LaunchState::Complete; // its files are missing
  EXPECT_FALSE(first_comparison(explained(data)).explanation);
  EXPECT_THAT(first_comparison(explained(data)).no_explanation, HasSubstr("traced launch"));
}

TEST_F(TraceEvidence, EveryRendererShowsIt) {
  const LedgerData data = ledger("forward,backward");
  write_traces(data);
  const Report report = explained(data);
  TableStyle ascii;
  ascii.unicode = false;
  const std::string where = where_text(*first_comparison(report).explanation);
  EXPECT_THAT(where, HasSubstr("forward -"));
  EXPECT_THAT(where, HasSubstr("(60 %), backward"));
  EXPECT_THAT(where, HasSubstr("(40 %); "));
  EXPECT_THAT(render_table(report, ascii), HasSubstr("forward -"));
  EXPECT_THAT(render_markdown(report), HasSubstr("forward -"));
  const std::string html = render_html(report);
  for (const char* part : {"<svg", "class=\"fall\"", "audit passed", "aten::mm"})
    EXPECT_THAT(html, HasSubstr(part));
  for (const char* not_a_number : {">nan", "\"nan", " nan", ">inf", "\"inf"})
    EXPECT_THAT(html, Not(HasSubstr(not_a_number)));
  const auto json = nlohmann::json::parse(render_json(report));
  EXPECT_TRUE(json["cells"][0]["comparisons"][0]["explanation"]["closure"]["closed"]);
  EXPECT_EQ(json["claims"][0]["stages"], "forward,backward");
  const std::string table = render_explain_table(report, {0, 0}, 10, ascii);
  for (const char* part : {"ema_swap: slow -> fast: faster, claim confirmed",
                           "10 pairs of traced steps",
                           "\n  step ",
                           "self time per step (ms)",
                           "faster",
                           "x1.000",
                           "forward, backward: CONFIRMED"})
    EXPECT_THAT(table, HasSubstr(part));
  EXPECT_THAT(render_explain_summary(report, {{0, 0}}, ascii), HasSubstr("forward -"));
  EXPECT_THAT(render_table(judge_results(data), ascii), Not(HasSubstr("forward -")));
}

// Two ranks: rank 1's own clock shows a longer step, and it waits least, so rank 0 waits for it.
TEST_F(TraceEvidence, SeveralRanksShowWhoWaitsForWhom) {
  LedgerData data = ledger("");
  std::map<std::string, std::int64_t> variants;
  for (const VariantRow& variant : data.variants) variants[variant.name] = variant.id;
  const auto tell = [&](double first_ns, double second_ns) {
    std::erase_if(data.metrics, [](const MetricRow& row) { return row.path.starts_with("rank/"); });
    for (const LaunchRow& launch : data.launches)
      for (const auto& [path, value] :
           {std::pair("rank/0/step_ns", first_ns), {"rank/1/step_ns", second_ns}})
        for (const char* name : {"slow", "fast"})
          data.metrics.push_back({launch.id, variants.at(name), path, "ns", value, ""});
  };
  tell(10e6, 10.05e6); // within 1 %
  EXPECT_EQ(ranks_text(first_comparison(judge_results(data))),
            "slowest rank by its own clock: slow (all alike, 10.1 ms); fast (all alike, 10.1 ms)");
  tell(10e6, 12e6);
  TableStyle ascii;
  ascii.unicode = false;
  ascii.width = 400;
  const std::string clock =
      "slowest rank by its own clock: slow rank 1 (12.0 ms; rank 0: 10.0 ms); fast "
      "rank 1 (12.0 ms; rank 0: 10.0 ms)";
  EXPECT_EQ(ranks_text(first_comparison(judge_results(data))), clock);
  EXPECT_THAT(render_table(judge_results(data), ascii), HasSubstr(clock));

  const std::int64_t ms = 1'000'000;
  write_trace(path("slow"), "slow", 4 * ms, 6 * ms, true, 2 * ms);
  write_trace(path("fast"), "fast", 4 * ms, 4 * ms, true, ms);
  EXPECT_EQ(ranks_text(first_comparison(explained(data))),
            clock + "; exposed communication is unknown: no usable trace of rank 1");
  const auto other = [&](const char* name) {
    return (directory_ / trace_file_name(77, 1, name)).string();
  };
  write_trace(other("slow"), "slow", 5 * ms, 5 * ms, true, ms / 2);
  write_trace(other("fast"), "fast", 4 * ms, 4 * ms, true, ms);
  const Report report = explained(data);
  const std::string waits =
      "exposed communication per step: slow 500 us (5.00 %) on rank 1, which the others wait for, "
      "to "
      "2.00 ms (20.0 %) on rank 0; fast 1.00 ms (12.5 %) on rank 0 as on every rank";
  EXPECT_EQ(ranks_text(first_comparison(report)), waits);
  EXPECT_THAT(render_table(report, ascii), HasSubstr(waits));
  EXPECT_THAT(render_explain_table(report, {0, 0}, 10, ascii), HasSubstr(waits));
  EXPECT_THAT(render_explain_summary(report, {{0, 0}}, ascii), HasSubstr(waits));
  EXPECT_THAT(render_markdown(report), test::names("exposed communication", "slow 500 us"));
  EXPECT_THAT(render_html(report), test::names("exposed communication", "slow 500 us"));
  Comparison noisy = first_comparison(report); // rank 0 waits longer in one round only
  for (std::size_t i = 0; i < 10; ++i)
    noisy.a_ranks[0].traced->by_round[i] = i == 0 ? 15.5e6 : 0.5e6;
  EXPECT_THAT(ranks_text(noisy), test::names("500 us (5.00", "on rank 1", "2.00 ms (20.0"));
  const auto json = nlohmann::json::parse(render_json(report));
  EXPECT_NEAR(
      json["cells"][0]["comparisons"][0]["ranks"][1]["baseline"]["traced"]["exposed_ns"], 5e5, 1);
  for (const StageDelta& stage : first_comparison(report).explanation->waterfall.stages)
    if (stage.stage == Stage::ExposedComm) {
      EXPECT_NEAR(stage.delta_ns, -1e6, 1);
    }
}

TEST_F(TraceEvidence, NamesInTracesArriveEscaped) {
  const LedgerData data = ledger("");
  write_traces(data);
  Report report = explained(data);
  const std::string markup = "<script>alert(\"x\")</script>\xff";
  Comparison& comparison = report.cells[0].comparisons[0];
  for (DiffRow& row : comparison.explanation->operators) row.name = row.short_name = markup;
  comparison.explanation->waterfall.b.failed = {{markup, 1, 0, false, markup}};
  comparison.explanation->waterfall.b.passed = false;
  comparison.explanation->waterfall.unusable = markup;
  EXPECT_THAT(render_html(report), Not(HasSubstr("<script")));
  EXPECT_TRUE(nlohmann::json::accept(render_explain_json(report, {{0, 0}}, 10)));
}

// The document as a whole, on figures that are chosen by hand.
TEST(ExplainJson, Golden) {
  Report report;
  report.cells.emplace_back();
  report.cells[0].cell.name = "varlen";
  Comparison comparison;
  comparison.a = "mask_dense";
  comparison.b = "varlen";
  comparison.explanation.emplace();
  Explanation& explanation = *comparison.explanation;
  explanation.traced_as = "device";
  Waterfall& waterfall = explanation.waterfall;
  waterfall.a_ns = 10e6;
  waterfall.b_ns = 8e6;
  waterfall.stages = {{Stage::Forward, 10e6, 8e6, -2e6, Interval{-2.5e6, -1.5e6}, true}};
  waterfall.traced_interval = Interval{-2.5e6, -1.5e6};
  waterfall.pairs = 30;
  waterfall.timed_a_ns = 10e6;
  waterfall.timed_delta_ns = -1.5e6;
  waterfall.residual_ns = 0.5e6;
  waterfall.residual_share = 0.05;
  waterfall.allowed_share = 0.01;
  waterfall.a.path = "traces/7.0.mask_dense.sqlite";
  waterfall.a.steps = 30;
  waterfall.a.traced_over_timed = 1.25;
  waterfall.b.path = "traces/7.0.varlen.sqlite";
  waterfall.b.passed = false;
  waterfall.b.failed = {{"lost_records", 3, 0, false, "rows are missing"}};
  DiffRow row;
  row.name = "void flash<1>(int)";
  row.short_name = "flash";
  row.kernel_class = "attention";
  row.stage = Stage::Forward;
  row.calls_b = 12;
  row.b_ns = 1e6;
  row.delta_ns = 1e6;
  row.status = DiffStatus::Added;
  explanation.kernels = {row, row};
  report.cells[0].comparisons = {comparison};
  const auto expected = nlohmann::json::parse(R"json({
    "schema_version": 5,
    "comparisons": [{
      "cell": "varlen", "baseline": "mask_dense", "candidate": "varlen",
      "headline": "incomplete", "time": null,
      "explanation": {
        "traced_as": "device", "pairs": 30, "baseline_ns": 1e7, "candidate_ns": 8e6,
        "interval_95": [-2.5e6, -1.5e6], "unusable": "",
        "where_text": "where: too few traced steps to trust this breakdown: its parts miss the timed difference by 5 % of the baseline's time, within the noise of 30 pairs; more [trace] rounds narrow it: forward -2.000 ms (100 %)",
        "stages": [{"stage": "forward", "baseline_ns": 1e7, "candidate_ns": 8e6, "delta_ns": -2e6,
                    "interval_95": [-2.5e6, -1.5e6], "clear": true}],
        "closure": {"closed": false, "timed_baseline_ns": 1e7, "timed_delta_ns": -1.5e6,
                    "timed_interval_95": null, "traced_delta_ns": -2e6, "residual_ns": 5e5,
                    "residual_share": 0.05, "allowed_share": 0.01},
        "health": {
          "baseline": {"trace": "traces/7.0.mask_dense.sqlite", "audit_passed": true,
                       "audit_failed": [],
                "steps": 30, "traced_over_timed": 1.25},
          "candidate": {"trace": "traces/7.0.varlen.sqlite", "audit_passed": false,
                "audit_failed": [{"check": "lost_records", "value": 3.0, "limit": 0.0,
                                  "detail": "rows are missing"}],
                "steps": 0, "traced_over_timed": null}},
        "kernel_rows": 2, "operator_rows": 0,
        "kernels": [{"name": "void flash<1>(int)", "short_name": "flash", "class": "attention",
                     "stage": "forward", "status": "added",
                     "calls_baseline": 0.0, "calls_candidate": 12.0,
                     "baseline_ns": 0.0, "candidate_ns": 1e6, "delta_ns": 1e6, "interval_95": null}],
        "operators": []
      },
      "no_explanation": "", "ranks": []
    }]
  })json");
  EXPECT_EQ(nlohmann::json::parse(render_explain_json(report, {{0, 0}}, 1)), expected);
}

TEST(ExplainText, MainComparisonIsTheClaimedOneElseTheLastLevel) {
  Report report;
  report.cells.emplace_back();
  EXPECT_FALSE(main_comparison(report, 0));
  auto& comparisons = report.cells[0].comparisons;
  comparisons.resize(3);
  comparisons[2].against_reference = false;
  EXPECT_EQ(main_comparison(report, 0), 1u);
  report.claims.emplace_back();
  report.claims[0].cell = 0;
  report.claims[0].comparison = 0;
  EXPECT_EQ(main_comparison(report, 0), 0u);
}

} // namespace attribution_report_test
} // namespace assay
