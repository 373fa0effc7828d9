// A calibration: its row from results with known figures, what it concludes, and who cites it.
#include "experiments/analysis/calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "experiments/report/render.h"
#include "experiments/report/section.h"
#include "experiments/report/sections/list.h"
#include "tests/analysis/synthetic_report.h"
#include "tests/names.h"
#include "tests/synthetic_cells.h"

namespace assay {
namespace calibration_test {

using synthetic::SyntheticCell;
using synthetic::SyntheticPlan;

constexpr double kUnitNs = 1e9;

// ln(time ratio) of the six launches: `mean` +- 0.001 in turns.
double effect_in(int index, double mean) {
  return mean + (index % 2 == 0 ? 0.001 : -0.001);
}

// Sets the times of a cell's level, and what was planted in it: 0.018 or 0.022.
void set_times(LedgerData& data, std::int64_t cell, double mean) {
  std::map<std::int64_t, int> indices;
  for (const LaunchRow& launch : data.launches)
    if (launch.cell == cell && launch.kind == LaunchKind::Timed) indices[launch.id] = launch.index;
  for (VisitRow& visit : data.visits) {
    const auto launch = indices.find(visit.launch);
    if (launch == indices.end()) continue;
    const Role role = data.variant(visit.variant).role;
    const double theta =
        role == Role::Reference ? 0 : effect_in(launch->second, role == Role::Level ? mean : 0);
    visit.wall_ns = std::llround(kUnitNs * visit.steps * std::exp(theta));
  }
  for (const VariantRow& variant : data.variants)
    if (variant.cell == cell && variant.role == Role::Level)
      for (const auto& [launch, index] : indices)
        data.metrics.push_back(
            {launch, variant.id, kPlantedMetric, "log ratio", index % 2 == 0 ? 0.022 : 0.018, ""});
}

// Results of the matrix that `assay calibrate` measures.
LedgerData results(double aa, double planted) {
  SyntheticPlan plan;
  plan.name = "varlen";
  plan.launches = 6;
  plan.rounds = 8;
  plan.tail_share = 0;
  for (const auto& [name, level] :
       {std::pair{kAaCell, "spin0"}, std::pair{kPlantedCell, "spin2"}}) {
    SyntheticCell cell;
    cell.name = name;
    cell.optimization = name; // of its own, so that each has its levels
    cell.levels = {{.name = "off"}, {.name = level}};
    cell.timed_launches = 6;
    cell.config_json = R"({"device":"cpu","precision":"fp32","preset":"tiny","seed":1})";
    plan.cells.push_back(cell);
  }
  LedgerData data = synthetic_ledger(plan);
  for (VariantRow& variant : data.variants)
    if (variant.name == "spin2")
      variant.config_json =
          R"({"device":"cpu","precision":"fp32","preset":"tiny","planted_spin":0.02})";
  set_times(data, 1, aa);
  set_times(data, 2, planted);
  return data;
}

// t of 97.5 % with 5 degrees of freedom times the standard error sqrt(6 / 5) 0.001 / sqrt(6).
constexpr double kHalf = 2.570582 * 0.001 * 0.4472136;

TEST(Calibration, TheRowHasTheFiguresOfItsResults) {
  const Result<CalibrationRow> made = calibration_row(results(0, 0.02));
  ASSERT_TRUE(made) << made.error().message;
  const CalibrationRow& row = *made;
  EXPECT_NEAR(row.aa.effect, 0, 1e-8);
  EXPECT_NEAR(row.aa.low, -kHalf, 1e-7);
  EXPECT_NEAR(row.aa.high, kHalf, 1e-7);
  EXPECT_EQ(row.aa.validity, "OK");
  EXPECT_EQ(row.aa.speed, "NO_EFFECT");
  EXPECT_NEAR(row.planted.effect, 0.02, 1e-8);
  EXPECT_NEAR(row.planted.low, 0.02 - kHalf, 1e-7);
  EXPECT_EQ(row.planted.speed, "SLOWER");
  EXPECT_NEAR(row.planted_truth, 0.02, 1e-12);
  EXPECT_EQ(row.planted_share, 0.02);
  EXPECT_NEAR(row.unit_ns, kUnitNs, 1);
  EXPECT_EQ(row.launches, 6);
  EXPECT_EQ(row.cell, "varlen");
  EXPECT_EQ(row.preset, "tiny");
  EXPECT_EQ(row.precision, "fp32");
  EXPECT_EQ(row.device, "cpu");
  EXPECT_EQ(row.host, "synthetic");
  EXPECT_EQ(row.cores, 2);
  EXPECT_EQ(row.gpu, "");
  EXPECT_EQ(row.utc, "2026-11-21T00:01:00Z"); // the end of its last launch
  EXPECT_EQ(calibration_state(row), CalibrationState::Passed);
  EXPECT_THAT(
      calibration_text(row),
      test::names("finds 2 %, and no effect where there is none", "+2.02 % planted", row.utc));
}

TEST(Calibration, WhatTheResultsLackIsNamed) {
  LedgerData data = results(0, 0.02);
  std::erase_if(data.metrics, [](const MetricRow& row) { return row.path == kPlantedMetric; });
  EXPECT_THAT(calibration_row(data).error().message, testing::HasSubstr(kPlantedMetric));
  data = results(0, 0.02);
  std::erase_if(data.launches, [](const LaunchRow& row) { return row.cell == 2; });
  EXPECT_THAT(calibration_row(data).error().message, testing::HasSubstr("'planted'"));
  data = results(0, 0.02);
  data.launches.at(1).identity.host = "another"; // a timed one
  EXPECT_THAT(calibration_row(data).error().message, testing::HasSubstr("several machines"));
}

TEST(Calibration, AnIntervalThatExcludesWhatIsThereIsAnAlarm) {
  CalibrationRow row = value_or_throw(calibration_row(results(0, 0.02)));
  EXPECT_EQ(calibration_state(value_or_throw(calibration_row(results(0.005, 0.02)))),
            CalibrationState::Alarm);
  EXPECT_EQ(calibration_state(value_or_throw(calibration_row(results(0, 0.026)))),
            CalibrationState::Alarm);
  row.planted.validity = "CONTENDED";
  // Six launches: t(0.9975, 5) / t(0.975, 5) = 4.773 / 2.571 of the 95 % interval.
  row.planted_truth = row.planted.effect + 1.85 * (row.planted.high - row.planted.effect);
  EXPECT_NE(calibration_state(row), CalibrationState::Alarm);
  row.planted_truth = row.planted.effect + 1.87 * (row.planted.high - row.planted.effect);
  EXPECT_EQ(calibration_state(row), CalibrationState::Alarm);
  EXPECT_THAT(calibration_conclusion(row), testing::StartsWith("ALARM: "));
}

TEST(Calibration, WithoutBothVerdictsItIsUndecided) {
  const CalibrationRow passed = value_or_throw(calibration_row(results(0, 0.02)));
  CalibrationRow row = passed;
  row.aa.speed = "INCONCLUSIVE";
  EXPECT_EQ(calibration_state(row), CalibrationState::Undecided);
  EXPECT_THAT(calibration_conclusion(row), test::names("undecided: ", "A/A", "rounds"));
  row = passed;
  row.planted.validity = "CONTENDED";
  row.planted.speed = "INCONCLUSIVE";
  EXPECT_EQ(calibration_state(row), CalibrationState::Undecided);
  EXPECT_THAT(calibration_conclusion(row), test::names("undecided: ", "CONTENDED", "quiet"));
}

// A calibration of the machine of synthetic results.
CalibrationRow of_machine(const std::string& utc) {
  CalibrationRow row = value_or_throw(calibration_row(results(0, 0.02)));
  row.utc = utc;
  return row;
}

std::string header_line(const Report& report) {
  for (const SectionRow& row : run_section(report).rows)
    if (row.texts.front() == "calibration") return row.texts.back();
  return "";
}

TEST(Calibration, AReportCitesTheNewestOfItsMachine) {
  LedgerData data = synthetic::synthetic_ledger(synthetic::of_a_trainer(synthetic::full_plan()));
  const Report before = judge_results(data);
  EXPECT_FALSE(before.calibration);
  EXPECT_THAT(header_line(before), test::names("not calibrated here", "`assay calibrate DIR`"));
  EXPECT_TRUE(nlohmann::json::parse(render_json(before)).at("calibration").is_null());
  EXPECT_EQ(header_line(judge_results(results(0, 0.02))), ""); // it is being calibrated
  CalibrationRow elsewhere = of_machine("2026-05-01T00:00:00Z"),
                 on_gpu = of_machine("2026-06-01T00:00:00Z");
  elsewhere.host = "another";
  on_gpu.device = "cuda";
  data.calibrations = {
      of_machine("2026-01-01T00:00:00Z"), of_machine("2026-02-01T00:00:00Z"), elsewhere, on_gpu};
  const Report report = judge_results(data);
  ASSERT_TRUE(report.calibration);
  EXPECT_EQ(report.calibration->utc, "2026-02-01T00:00:00Z");
  EXPECT_EQ(header_line(report), calibration_text(*report.calibration));
  EXPECT_EQ(find_alarm(report, AlarmCode::Calibration), nullptr);
  const nlohmann::json json = nlohmann::json::parse(render_json(report)).at("calibration");
  EXPECT_EQ(json.at("state"), "passed");
  EXPECT_EQ(json.at("utc"), "2026-02-01T00:00:00Z");
  EXPECT_EQ(json.at("planted_speed"), "SLOWER");
  EXPECT_NEAR(json.at("planted_truth").get<double>(), 0.02, 1e-12);
}

TEST(Calibration, LaunchesOfTwoMachinesCiteNone) {
  LedgerData data = synthetic::synthetic_ledger(synthetic::full_plan());
  data.calibrations = {of_machine("2026-01-01T00:00:00Z")};
  for (LaunchRow& launch : data.launches)
    if (launch.kind == LaunchKind::Timed && launch.index == 1) launch.identity.cores = 4;
  EXPECT_FALSE(judge_results(data).calibration);
}

TEST(Calibration, NothingMeasuredNeedsNone) {
  LedgerData data = synthetic::synthetic_ledger(synthetic::full_plan());
  data.launches.clear();
  EXPECT_EQ(header_line(judge_results(data)), "");
}

TEST(Calibration, AnAlarmOfTheMachineIsOneOfTheReport) {
  LedgerData data = synthetic::synthetic_ledger(synthetic::full_plan());
  data.calibrations = {of_machine("2026-01-01T00:00:00Z")};
  data.calibrations.front().aa = {0.01, 0.009, 0.011, "OK", "SLOWER"};
  const Report report = judge_results(data);
  const Alarm* alarm = find_alarm(report, AlarmCode::Calibration);
  ASSERT_NE(alarm, nullptr);
  EXPECT_EQ(alarm->cell, 0) << "it is about every cell";
  EXPECT_EQ(to_string(alarm->code), "calibration");
  EXPECT_EQ(nlohmann::json::parse(render_json(report)).at("calibration").at("state"), "alarm");
}

// Notes of the plan: once, with their cells.
TEST(PlanNotes, AreShownOnceWithTheirCells) {
  LedgerData data = synthetic::synthetic_ledger(synthetic::full_plan());
  data.notes = {{"ema_swap", "its norms fell back"},
                {"varlen", "its norms fell back"},
                {"", "no cell tests claim 'c'"}};
  data.cells.at(0).name = "ema_swap/group2"; // a cell that was split
  const Report report = judge_results(data);
  const Section section = plan_notes_section(report);
  ASSERT_EQ(section.rows.size(), 1u);
  EXPECT_THAT(section.rows[0].texts.front(),
              test::names("'ema_swap', 'varlen'", "its norms fell back"));
  const nlohmann::json notes = nlohmann::json::parse(render_json(report)).at("notes");
  ASSERT_EQ(notes.size(), 3u);
  EXPECT_EQ(notes[0].at("cell"), "ema_swap");
  EXPECT_TRUE(notes[2].at("cell").is_null());
  EXPECT_EQ(report_of_cell(report, "ema_swap/evaluation").notes.size(), 1u);
}

} // namespace calibration_test
} // namespace assay
