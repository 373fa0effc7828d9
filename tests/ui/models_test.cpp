// What the screens say, against the analysis that they show: effects, waterfall, kernel table,
// telemetry, launches.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "experiments/analysis/wording.h"
#include "tests/ui/sample_ledger.h"
#include "tests/ui/support.h"
#include "ui/model/kernel_model.h"
#include "ui/model/results/compare_model.h"
#include "ui/model/results/runs_model.h"
#include "ui/model/telemetry/telemetry_model.h"
#include "ui/screens/screens.h"

namespace assay {
namespace models_test {

using test::opened;
using test::sample_directory;

TEST(CompareModel, SaysWhatAnalysisSays) {
  const Workspace workspace = opened(sample_directory(), ScreenId::Compare);
  const Comparison& comparison = *workspace.comparison();
  const CompareModel model = compare_model(*workspace.results, 0);
  EXPECT_EQ(model.badge, verdict_word(comparison.verdict));
  EXPECT_EQ(model.sentence.find(headline(comparison.verdict).text), 0U) << model.sentence;
  EXPECT_NE(model.sentence.find(effect_text(comparison.effect->theta)), std::string::npos);
  EXPECT_NE(model.sentence.find("A/A control"), std::string::npos);
  EXPECT_EQ(model.interval_level, interval_level_text(workspace.results->report));
  ASSERT_EQ(model.effects.size(), 3U); // unit, sum, memory
  EXPECT_NEAR(
      model.effects[0].interval->point, 100 * std::expm1(comparison.effect->theta.value), 1e-9);
  EXPECT_NEAR(model.effects[2].interval->point, -20, 0.01);
}

TEST(CompareModel, TheWaterfallAddsUpExactly) {
  const Workspace workspace = opened(sample_directory(), ScreenId::Compare);
  const Waterfall& waterfall = workspace.explanation()->waterfall;
  const WaterfallModel model = waterfall_model(waterfall);
  ASSERT_GE(model.bars.size(), 6U);
  EXPECT_EQ(model.bars.front().kind, WaterfallBar::Kind::Total);
  EXPECT_EQ(model.bars.front().to_ns, waterfall.timed_a_ns);
  double at = model.bars.front().to_ns;
  for (std::size_t i = 1; i + 1 < model.bars.size(); ++i) {
    EXPECT_DOUBLE_EQ(model.bars[i].from_ns, at);
    at = model.bars[i].to_ns;
  }
  EXPECT_DOUBLE_EQ(model.bars.back().to_ns, at);
  EXPECT_NEAR(model.bars.back().to_ns, waterfall.timed_a_ns + waterfall.timed_delta_ns, 1e-3);
  EXPECT_LT(model.low_ns, model.bars.back().to_ns);
  EXPECT_GT(model.high_ns, model.bars.front().to_ns);
}

TEST(CompareModel, WhatDoesNotCloseWarns) {
  Waterfall waterfall;
  waterfall.a_ns = 100;
  waterfall.b_ns = 90;
  waterfall.timed_a_ns = 100;
  waterfall.timed_delta_ns = -40;
  waterfall.residual_ns = -30;
  waterfall.residual_share = -0.3;
  waterfall.allowed_share = 0.01;
  StageDelta stage;
  stage.stage = Stage::Forward;
  stage.delta_ns = -10;
  waterfall.stages = {stage};
  EXPECT_EQ(waterfall_model(waterfall).warning,
            "The traced steps do not explain the timed difference.");
  EXPECT_EQ(waterfall_model(waterfall).bars[2].words, "-30.0 ns") << "each difference has its unit";
  waterfall.unusable = "312 records were lost";
  EXPECT_EQ(waterfall_model(waterfall).warning, "312 records were lost");
  waterfall.unusable.clear();
  waterfall.closed = true;
  EXPECT_EQ(waterfall_model(waterfall).warning, "");
}

TEST(CompareModel, WithoutTracesItSaysWhyThereIsNoWaterfall) {
  const test::Directory directory;
  synthetic::store(finished(), directory.string());
  const Workspace workspace = opened(directory.string(), ScreenId::Compare);
  const CompareModel model = compare_model(*workspace.results, 0);
  EXPECT_FALSE(model.waterfall);
  EXPECT_NE(model.why_no_waterfall.find("no trace was recorded"), std::string::npos)
      << model.why_no_waterfall;
}

TEST(KernelModel, HoldsTheRowsOfTheExplanationLargestFirst) {
  Workspace workspace = opened(sample_directory(), ScreenId::Kernels);
  const KernelModel model = kernel_model(workspace);
  ASSERT_EQ(model.rows.size(), workspace.explanation()->kernels.size());
  for (std::size_t i = 1; i < model.rows.size(); ++i)
    EXPECT_GE(std::abs(model.rows[i - 1].row->delta_ns), std::abs(model.rows[i].row->delta_ns));
  double sum = 0;
  for (const DiffRow& row : workspace.explanation()->kernels) sum += row.delta_ns;
  EXPECT_NEAR(model.delta_ns, sum, 1e-3);
  workspace.kernels.operators = true;
  EXPECT_EQ(kernel_model(workspace).rows.size(), workspace.explanation()->operators.size());
}

TEST(KernelModel, FiltersByWordsStageAndStatus) {
  Workspace workspace = opened(sample_directory(), ScreenId::Kernels);
  workspace.kernels.filter = "FLASH added";
  KernelModel model = kernel_model(workspace);
  ASSERT_EQ(model.rows.size(), 1U);
  EXPECT_EQ(model.rows[0].row->name, kFusedKernel);
  EXPECT_EQ(model.rows[0].row->status, DiffStatus::Added);
  EXPECT_EQ(kernel_cells(model, model.rows[0])[4],
            "-"); // no calls in the baseline: absent, not zero
  workspace.stage = Stage::Optimizer;
  model = kernel_model(workspace);
  ASSERT_TRUE(model.notice);
  EXPECT_EQ(model.notice->title, "No row matches 'FLASH added' in stage optimizer");
  workspace.kernels.filter.clear();
  for (const KernelRowModel& row : kernel_model(workspace).rows)
    EXPECT_EQ(row.row->stage, Stage::Optimizer);
}

TEST(KernelModel, SortsByEveryColumnBothWays) {
  Workspace workspace = opened(sample_directory(), ScreenId::Kernels);
  workspace.kernels.sort = KernelSort::CallsB;
  workspace.kernels.descending = false;
  const KernelModel up = kernel_model(workspace);
  for (std::size_t i = 1; i < up.rows.size(); ++i)
    EXPECT_LE(up.rows[i - 1].row->calls_b, up.rows[i].row->calls_b);
  workspace.kernels.sort = KernelSort::Name;
  workspace.kernels.descending = true;
  const KernelModel names = kernel_model(workspace);
  for (std::size_t i = 1; i < names.rows.size(); ++i)
    EXPECT_GE(names.rows[i - 1].row->short_name, names.rows[i].row->short_name);
}

TEST(TelemetryModel, RefusalsAreWordsNotZeros) {
  const Workspace workspace = opened(sample_directory(), ScreenId::Telemetry);
  const TelemetryModel model = telemetry_model(workspace);
  ASSERT_FALSE(model.notice);
  ASSERT_EQ(model.rows.size(), 4U);
  EXPECT_EQ(model.rows.back().name, "Energy [J]");
  EXPECT_FALSE(model.rows.back().plotted);
  EXPECT_EQ(model.rows.back().sides[0].words,
            "not permitted: the driver refuses NVML_FI_DEV_ENERGY");
  const auto power = std::find_if(model.rows.begin(), model.rows.end(), [](const auto& row) {
    return row.name == "Power [W]";
  });
  ASSERT_NE(power, model.rows.end());
  EXPECT_EQ(power->sides[0].words.find("mean 612"), 0U) << power->sides[0].words;
}

TEST(Strips, KeepEveryExtremeAndEveryGap) {
  TelemetrySeries series;
  for (int i = 0; i < 1000; ++i) {
    if (i >= 400 && i < 420) continue;
    series.time.push_back(i * 1'000'000);
    series.value.push_back(i == 777 ? 99 : i % 7);
  }
  const auto all = strips(series, 1'000'000, 0, 0, 1, 50);
  ASSERT_EQ(all.size(), 2U); // one gap
  EXPECT_LT(all[0].x.back(), 0.41);
  EXPECT_GT(all[1].x.front(), 0.41);
  double highest = 0;
  for (const Strip& strip : all) {
    EXPECT_LE(strip.x.size(), 51U);
    for (const double high : strip.high) highest = std::max(highest, high);
  }
  EXPECT_EQ(highest, 99); // a spike is not averaged away
}

TEST(RunsModel, EveryLaunchHasItsMarkAndCard) {
  const Workspace workspace = opened(sample_directory());
  const auto grid = launch_grid(*workspace.results);
  ASSERT_EQ(grid.size(), 2U);
  EXPECT_EQ(grid[0].marks.size(), 1U + 3 + 5 + 1);
  EXPECT_EQ(grid[0].marks.back().label, "traced 0");
  const auto card = launch_card(*workspace.results, grid[0].marks.back().launch);
  EXPECT_EQ(card[0].text, "traced 0 of varlen, attempt 1");
  EXPECT_TRUE(launch_card(*workspace.results, 9999).empty());
}

TEST(RunsModel, ALaunchThatWasMeasuredAgainIsMarked) {
  LedgerData data = finished();
  const auto first =
      std::find_if(data.launches.begin(), data.launches.end(), [](const LaunchRow& launch) {
        return launch.kind == LaunchKind::Timed;
      });
  LaunchRow again = *first;
  again.id = data.launches.back().id + 1;
  again.repeats = first->id;
  again.attempt = first->attempt + 1;
  data.launches.push_back(again);
  Results results;
  results.report = judge_results(data);
  const std::vector<LaunchMark> marks = launch_grid(results)[0].marks;
  const auto replaced = std::find_if(
      marks.begin(), marks.end(), [](const LaunchMark& mark) { return mark.state == "replaced"; });
  ASSERT_NE(replaced, marks.end());
  EXPECT_EQ(replaced->label, "timed 1");
  EXPECT_EQ(replaced->tone, Tone::Neutral);
  EXPECT_EQ(marks.back().label, "timed 1, attempt 2");
  EXPECT_EQ(marks.back().state, "complete");
}

TEST(Tables, AreMarkdownAndCsv) {
  const TextTable table{{"a", "b"}, {"x|y", "1,2"}, {"say \"so\"", "a_b<c>"}};
  EXPECT_EQ(markdown(table),
            "| a | b |\n|---|---|\n| x\\|y | 1,2 |\n| say \"so\" | a\\_b&lt;c> |\n");
  EXPECT_EQ(csv(table), "a,b\nx|y,\"1,2\"\n\"say \"\"so\"\"\",a_b<c>\n");
  const Workspace workspace = opened(sample_directory());
  for (const Screen& screen : screens())
    if (screen.table != nullptr) {
      EXPECT_GE(screen.table(workspace).size(), 1U) << screen.id;
    }
}

TEST(TimeWords, HaveThreeDigitsAndOneUnit) {
  EXPECT_EQ(time_text(12'345'678), "12.3 ms");
  EXPECT_EQ(time_text(-1'500), "-1.50 us");
  EXPECT_EQ(time_text(0), "0 ns");
  EXPECT_EQ(signed_in_unit(2e6, time_unit(5e6)), "+2.00");
  EXPECT_EQ(signed_in_unit(1, time_unit(5e9)), "0");
}

} // namespace models_test
} // namespace assay
