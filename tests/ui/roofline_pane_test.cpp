// Throughput and roofline of the screen "Compare": the report's figures, what is unknown, where
// there is none.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "core/text.h"
#include "experiments/demo/synthetic_ledger.h"
#include "tests/synthetic_cells.h"
#include "tests/ui/support.h"
#include "ui/screens/screens.h"
#include "ui/window/script.h"

namespace assay {
namespace roofline_pane_test {

using synthetic::SyntheticCell;
using synthetic::SyntheticPlan;
using test::Canvas;
using test::colors_in;

constexpr const char* kConfig =
    R"({"family":"deltanet_mla","preset":"base","precision":"bf16","device":"cuda","eval_interval":100})";

LedgerData measured(const std::string& config = kConfig, const std::string& unit = "train_step") {
  SyntheticCell cell = synthetic::two_level_cell(std::log(0.8));
  cell.config_json = config;
  cell.unit = unit;
  cell.unit_ns = 250e6;
  SyntheticPlan plan;
  plan.cells = {cell};
  return synthetic::synthetic_ledger(plan);
}

LedgerData with_peaks(LedgerData data) {
  for (const LaunchRow& launch : data.launches)
    if (launch.kind == LaunchKind::Parity)
      for (const auto& [path, value] : {std::pair(kComputePeakMetric, 700e12),
                                        std::pair(kFp32PeakMetric, 50e12),
                                        std::pair(kBandwidthMetric, 4e12),
                                        std::pair(kLaunchMetric, 2e-6)})
        data.metrics.push_back({launch.id, 0, path, "", value, ""});
  return data;
}

std::map<std::string, std::array<std::string, 2>> rows_of(const Section& section) {
  std::map<std::string, std::array<std::string, 2>> rows;
  for (const SectionRow& row : section.rows)
    rows[row.texts.at(0)] = {row.texts.at(1), row.texts.at(2)};
  return rows;
}

TEST(RooflinePane, ShowsOfEachVariantWhatTheReportShows) {
  const LedgerData data = with_peaks(measured());
  const Report report = judge_results(data);
  const std::vector<VariantSpeed>& speeds = report.cells.at(0).speed;
  ASSERT_EQ(speeds.size(), 2U);
  const Workspace workspace = test::comparing(data);
  ASSERT_NE(workspace.speed(), nullptr);
  const auto rows = rows_of(*workspace.speed());
  for (std::size_t side = 0; side < 2; ++side) {
    const VariantSpeed& speed = speeds[side];
    EXPECT_EQ(rows.at("throughput")[side], token_rate_text(speed.tokens_per_second));
    EXPECT_EQ(rows.at("MFU")[side], utilization_text(speed));
    EXPECT_EQ(rows.at("step, measured")[side], human_seconds(speed.step_seconds));
    EXPECT_EQ(rows.at("step at measured peaks")[side], roofline_text(speed));
    EXPECT_EQ(rows.at("kernel launches per step")[side], kernel_launches_text(speed));
    EXPECT_EQ(rows.at("bottleneck")[side], bottleneck_text(speed));
  }
  const MemoryEffect& memory = *workspace.comparison()->memory;
  EXPECT_EQ(rows.at("peak memory")[1], human_bytes(memory.b_bytes));
  EXPECT_NE(rows.at("throughput")[0], rows.at("throughput")[1]);
  EXPECT_NE(rows.at("MFU")[0], rows.at("MFU")[1]);
  EXPECT_EQ(rows.at("step at measured peaks")[0], rows.at("step at measured peaks")[1]);
  EXPECT_EQ(rows.count("device busy"), 0U); // no trace, no such row
  EXPECT_EQ(workspace.speed()->notes, std::vector<std::string>{speeds[0].unknown}); // no trace
}

TEST(RooflinePane, WithoutMeasuredPeaksItShowsWhy) {
  const Workspace workspace = test::comparing(measured());
  ASSERT_NE(workspace.speed(), nullptr);
  const auto rows = rows_of(*workspace.speed());
  EXPECT_EQ(rows.at("MFU")[0], "unknown");
  EXPECT_EQ(rows.at("bottleneck")[1], "unknown");
  EXPECT_EQ(rows.count("of it bound by memory traffic"), 0U);
  EXPECT_EQ(workspace.speed()->notes,
            std::vector<std::string>{"this run did not measure the peaks of the device"}); // once
}

TEST(RooflinePane, OfACellWithAnotherUnitItIsTheStepBeside) {
  const Workspace workspace = test::comparing(with_peaks(measured(kConfig, "evaluation")));
  ASSERT_TRUE(workspace.comparison()->end_to_end);
  ASSERT_NE(workspace.speed(), nullptr);
  EXPECT_EQ(workspace.speed()->notes.size(), 2U) << "it is the train step's, and not traced";
  const auto rows = rows_of(*workspace.speed());
  EXPECT_EQ(rows.at("throughput")[0], rows.at("throughput")[1]);
}

TEST(RooflinePane, AConfigurationThatIsNoneHasNoSpeed) {
  const Workspace workspace = test::comparing(measured(R"({"family":"unheard of"})"));
  EXPECT_EQ(workspace.speed(), nullptr);
  EXPECT_EQ(compare_panes(workspace), std::vector{ComparePane::Stages});
  EXPECT_TRUE(window_model(workspace)["model"]["speed"].is_null());
}

TEST(RooflinePane, IsReachedByKeyAndClickAndDrawnInBothThemes) {
  Workspace workspace = test::comparing(with_peaks(measured()));
  {
    const Canvas canvas(1400, 900);
    const Result<int> played =
        run_script(workspace,
                   *canvas.backend,
                   "expect model.pane=speed\nkey C\nexpect model.pane=stages\n"
                   "click pane.speed\nexpect model.pane=speed\n",
                   "speed");
    ASSERT_TRUE(played) << played.error().message;
  }
  for (const ThemeKind theme : {ThemeKind::Dark, ThemeKind::Light})
    for (const float scale : {0.75F, 1.0F, 3.0F}) {
      workspace.theme = theme;
      workspace.scale = scale;
      workspace.pane = ComparePane::Speed;
      const Image speed = Canvas(1280, 800).draw(workspace);
      EXPECT_GT(colors_in(speed), 20U);
      workspace.pane = ComparePane::Stages;
      EXPECT_NE(speed.rgb, Canvas(1280, 800).draw(workspace).rgb);
    }
}

} // namespace roofline_pane_test
} // namespace assay
