#include "experiments/analysis/judging/estimate_roofline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "experiments/analysis/report_lines.h"
#include "experiments/analysis/wording.h"
#include "experiments/demo/synthetic_ledger.h"
#include "experiments/report/render.h"
#include "model/config/cost/step_cost.h"
#include "tests/synthetic_cells.h"

namespace assay {
namespace speed_test {

using synthetic::synthetic_ledger;
using synthetic::SyntheticCell;
using synthetic::SyntheticPlan;
using synthetic::two_level_cell;
using testing::HasSubstr;
using testing::Not;

constexpr double kStepSeconds = 0.25;

TrainConfig base_config(const std::string& family = "deltanet_mla",
                        Precision precision = Precision::Bf16,
                        Device device = Device::Cuda) {
  TrainConfig config;
  config.family = family;
  config.preset = "base";
  config.precision = precision;
  config.device = device;
  return value_or_throw(resolve(config));
}

// "slow" takes about 250 ms, but for the launch's drift; "fast" 10 % less.
LedgerData ledger(const TrainConfig& config) {
  SyntheticPlan plan;
  plan.noise = 0;
  plan.tail_share = 0;
  SyntheticCell cell = two_level_cell(std::log(0.9));
  cell.config_json = to_json(config).dump();
  cell.unit_ns = kStepSeconds * 1e9;
  plan.cells = {cell};
  return synthetic_ledger(plan);
}

void add_peaks(LedgerData& data, bool fp8 = false) {
  const auto parity = std::find_if(data.launches.begin(), data.launches.end(), [](const auto& row) {
    return row.kind == LaunchKind::Parity;
  });
  ASSERT_NE(parity, data.launches.end());
  for (const auto& [path, value] : {std::pair(kComputePeakMetric, 700e12),
                                    std::pair(kFp32PeakMetric, 50e12),
                                    std::pair(kBandwidthMetric, 4e12),
                                    std::pair(kLaunchMetric, 2e-6)})
    data.metrics.push_back({parity->id, 0, path, "", value, ""});
  if (fp8) data.metrics.push_back({parity->id, 0, kFp8PeakMetric, "", 1300e12, ""});
}

TEST(Speed, RanksAddUpTheirTokens) {
  TrainConfig config = base_config();
  config.ranks = 2;
  LedgerData data = ledger(config);
  add_peaks(data);
  const Report report = judge_results(data);
  const VariantSpeed& speed = report.cells.at(0).speed.at(0);
  EXPECT_NEAR(speed.tokens_per_second, 2 * 32768 / speed.step_seconds, 1e-6);
  EXPECT_DOUBLE_EQ(speed.flops, total_flops(step_cost(step_shape(config)))); // of each rank
}

// Three of four positions of "slow" are padding: its tokens per second are those with a loss, and a
// claim that names a share of padding is judged where it is that.
TEST(Speed, PaddingIsNoTokenAndAConditionOfClaims) {
  TrainConfig config = base_config();
  config.packing = Packing::Padded;
  LedgerData data = ledger(config);
  data.cells[0].unit = "token";
  for (VariantRow& variant : data.variants)
    if (variant.level == "fast") variant.config_json = to_json(base_config()).dump();
  for (VisitRow& visit : data.visits)
    visit.tokens = visit.steps * (data.variant(visit.variant).level == "fast" ? 32768
                                  : visit.warmup                              ? 30000
                                                                              : 8192);
  ClaimRow claim = synthetic::step_time_claim(3, 4); // 4 x the tokens in 0.9 of the time
  claim.metric = "throughput";
  const auto state = [&](const char* needs) {
    claim.requires_json = needs;
    data.claims = {claim};
    return judge_results(data).claims.at(0);
  };
  const Report report = judge_results(data);
  const auto& speeds = report.cells.at(0).speed;
  ASSERT_EQ(speeds.size(), 2u);
  EXPECT_DOUBLE_EQ(speeds[0].padding_share, 0.75);
  EXPECT_DOUBLE_EQ(speeds[1].padding_share, 0);
  EXPECT_NEAR(speeds[0].step_seconds, kStepSeconds, 0.05 * kStepSeconds);
  EXPECT_NEAR(speeds[0].tokens_per_second, 8192 / speeds[0].step_seconds, 1e-6);
  EXPECT_THAT(speed_notes(report), testing::Contains(HasSubstr("Padding is 75 %")));
  EXPECT_EQ(state(R"({"padding_share":{"min":0.7,"max":0.8}})").state, ClaimState::Confirmed);
  const ClaimResult other = state(R"({"padding_share":{"min":0.05,"max":0.15}})");
  EXPECT_EQ(other.state, ClaimState::ConditionsNotMet);
  EXPECT_THAT(other.reason.text, HasSubstr("75 % of the baseline's positions"));
}

TEST(Speed, EachVariantByItsOwnStepTime) {
  const TrainConfig config = base_config();
  LedgerData data = ledger(config);
  add_peaks(data);
  const Report report = judge_results(data);
  const auto& speeds = report.cells.at(0).speed;
  ASSERT_EQ(speeds.size(), 2u);
  EXPECT_EQ(speeds[0].variant, "slow");
  EXPECT_EQ(speeds[1].variant, "fast");
  const Effect& effect = *report.cells.at(0).comparisons.at(0).effect;
  EXPECT_DOUBLE_EQ(speeds[0].step_seconds, effect.a_ns * 1e-9);
  EXPECT_NEAR(speeds[0].step_seconds, kStepSeconds, 0.05 * kStepSeconds);
  // 16 rows of 2048 tokens.
  EXPECT_NEAR(speeds[0].tokens_per_second, 32768 / (effect.a_ns * 1e-9), 1e-6);
  EXPECT_NEAR(speeds[1].tokens_per_second, 32768 / (effect.b_ns * 1e-9), 1e-6);
  const std::vector<OpCost> ops = step_cost(step_shape(config));
  EXPECT_DOUBLE_EQ(speeds[0].flops, total_flops(ops));
  EXPECT_EQ(speeds[0].kernels, total_kernels(ops));
  EXPECT_FALSE(speeds[0].kernels_traced);
  ASSERT_TRUE(speeds[0].roofline);
  const MeasuredPeaks peaks{700e12, 50e12, 0, 4e12, 2e-6};
  EXPECT_DOUBLE_EQ(speeds[0].roofline->seconds, roofline(ops, peaks).seconds);
  EXPECT_GT(kStepSeconds, 2 * speeds[0].roofline->seconds);
  EXPECT_FALSE(speeds[0].bound) << "far from the peaks, and nothing is traced";
  EXPECT_NE(speeds[0].unknown, "");
  const double mfu = 100 * total_flops(ops) / (speeds[0].step_seconds * 700e12);
  EXPECT_EQ(utilization_text(speeds[0]), fmt::format("{:.3g} %", mfu));
}

// Each number format has a peak of its own. Older ledgers have that of the reference alone, which
// says nothing of another format.
TEST(Speed, EachVariantByThePeaksOfItsNumberFormat) {
  LedgerData data = ledger(base_config("deltanet_mla", Precision::Fp32));
  for (VariantRow& variant : data.variants)
    if (variant.level == "fast") variant.config_json = to_json(base_config()).dump();
  add_peaks(data);
  const Report older = judge_results(data);
  for (const VariantSpeed& speed : older.cells.at(0).speed) {
    EXPECT_FALSE(speed.peaks) << speed.variant;
    EXPECT_NE(speed.unknown, "") << speed.variant;
  }
  const std::vector<MetricRow> shared = data.metrics;
  for (const VariantRow& variant : data.variants)
    for (MetricRow metric : shared) {
      metric.variant = variant.id;
      if (metric.path == kComputePeakMetric && variant.level != "fast") metric.value = 50e12;
      data.metrics.push_back(metric);
    }
  const Report report = judge_results(data);
  const auto& speeds = report.cells.at(0).speed;
  ASSERT_EQ(speeds.size(), 2u);
  ASSERT_TRUE(speeds[0].peaks && speeds[1].peaks);
  EXPECT_DOUBLE_EQ(speeds[0].peaks->flops_per_second, 50e12);
  EXPECT_DOUBLE_EQ(speeds[1].peaks->flops_per_second, 700e12);
}

TEST(Speed, WithoutPeaksNothingIsMadeUp) {
  for (const Device device : {Device::Cpu, Device::Cuda}) {
    const Report report = judge_results(ledger(base_config(
        "deltanet_mla", device == Device::Cpu ? Precision::Fp32 : Precision::Bf16, device)));
    for (const VariantSpeed& speed : report.cells.at(0).speed) {
      EXPECT_FALSE(speed.peaks || speed.roofline || speed.bound);
      EXPECT_EQ(utilization_text(speed), "unknown");
      EXPECT_EQ(roofline_text(speed), "unknown");
      EXPECT_EQ(bottleneck_text(speed), "unknown");
      EXPECT_THAT(speed.unknown,
                  HasSubstr(device == Device::Cpu ? "on GPUs only" : "did not measure"));
    }
  }
}

// A half-measured device is an unknown one: FP8 products have no time without their peak.
TEST(Speed, EveryNeededPeakIsAsked) {
  const TrainConfig config = base_config("deltanet_mla", Precision::Fp8);
  LedgerData data = ledger(config);
  add_peaks(data);
  EXPECT_FALSE(judge_results(data).cells.at(0).speed.at(0).roofline);
  data = ledger(config);
  add_peaks(data, true);
  EXPECT_TRUE(judge_results(data).cells.at(0).speed.at(0).roofline);
  std::erase_if(data.metrics, [](const MetricRow& row) { return row.path == kBandwidthMetric; });
  EXPECT_FALSE(judge_results(data).cells.at(0).speed.at(0).roofline);
}

// Launches of sparse attention are not known by arithmetic, so neither is what binds.
TEST(Speed, OperatorsOfSparseAttentionNeedATraceToBind) {
  TrainConfig config = base_config("nsa");
  config.nsa_stats = NsaStats::Every50;
  LedgerData data = ledger(config);
  add_peaks(data);
  Report report = judge_results(data);
  const VariantSpeed untraced = report.cells.at(0).speed.at(0);
  EXPECT_TRUE(untraced.roofline);
  EXPECT_FALSE(untraced.kernels || untraced.bound);
  EXPECT_THAT(untraced.unknown, HasSubstr("trace only"));

  // Traced: 30,000 kernels a step, the device busy for a tenth of it.
  Explanation explanation;
  explanation.traced_as = "device";
  explanation.waterfall.a_ns = explanation.waterfall.b_ns = kStepSeconds * 1e9;
  StageDelta gap;
  gap.stage = Stage::HostGap;
  gap.a_ns = gap.b_ns = 0.9 * kStepSeconds * 1e9;
  explanation.waterfall.stages = {gap};
  DiffRow kernel;
  kernel.calls_a = 30000;
  kernel.calls_b = 20;
  explanation.kernels = {kernel};
  report.cells.at(0).comparisons.at(0).explanation = explanation;
  estimate_roofline(report.cells.at(0), cell_views(data).at(0));
  const auto& speeds = report.cells.at(0).speed;
  EXPECT_EQ(speeds.at(0).kernels, 30000);
  EXPECT_TRUE(speeds.at(0).kernels_traced);
  EXPECT_NEAR(*speeds.at(0).busy_seconds, 0.1 * kStepSeconds, 1e-9);
  // 30,000 x 2 us = 60 ms, less than half of 250 ms: the host itself.
  EXPECT_EQ(speeds.at(0).bound, Bottleneck::Host);
  EXPECT_EQ(speeds.at(1).kernels, 20);
}

TEST(Speed, EvaluationsShowTheTrainStepBesideThem) {
  SyntheticPlan plan;
  SyntheticCell cell = two_level_cell(-0.4);
  cell.name = "evaluation";
  cell.unit = "evaluation";
  cell.config_json = to_json(base_config()).dump();
  plan.cells = {cell};
  const Report report = judge_results(synthetic_ledger(plan));
  const auto& speeds = report.cells.at(0).speed;
  ASSERT_EQ(speeds.size(), 1u);
  EXPECT_EQ(speeds[0].variant, "") << "the train step, not a variant";
  EXPECT_DOUBLE_EQ(speeds[0].step_seconds,
                   report.cells.at(0).comparisons.at(0).end_to_end->step_ns * 1e-9);
}

TEST(Speed, EveryRendererShowsIt) {
  LedgerData data = ledger(base_config());
  add_peaks(data);
  const Report report = judge_results(data);
  const VariantSpeed& slow = report.cells.at(0).speed.at(0);
  const std::string mfu = utilization_text(slow), rate = token_rate_text(slow.tokens_per_second);
  for (const std::string& text :
       {render_table(report, {}), render_markdown(report), render_html(report)}) {
    EXPECT_THAT(text, HasSubstr("Throughput and roofline"));
    EXPECT_THAT(text, HasSubstr(mfu));
    EXPECT_THAT(text, HasSubstr(rate));
  }
  const auto json = nlohmann::json::parse(render_json(report));
  const auto& speed = json.at("cells").at(0).at("speed").at(0);
  EXPECT_EQ(speed.at("variant"), "slow");
  EXPECT_TRUE(speed.at("limited_by").is_null()) << "not traced, and far from the peaks";
  EXPECT_DOUBLE_EQ(speed.at("peaks").at("bytes_per_second").get<double>(), 4e12);
  EXPECT_TRUE(speed.at("peaks").at("fp8_flops_per_second").is_null());
  const Report unknown = judge_results(ledger(base_config()));
  for (const std::string& text : {render_table(unknown, {}, {.cell = "", .verbose = true}),
                                  render_markdown(unknown),
                                  render_html(unknown)})
    EXPECT_THAT(text, HasSubstr("did not measure"));
}

// A ledger of another build: every form says why it has no roofline, and of which cell.
TEST(Speed, AConfigurationOfAnotherBuildIsNamed) {
  nlohmann::json config = to_json(base_config());
  config["tiles"] = 4;
  LedgerData data = ledger(base_config());
  for (VariantRow& variant : data.variants)
    if (variant.name == "fast") variant.config_json = config.dump();
  const Report partly = judge_results(data);
  ASSERT_EQ(partly.cells.at(0).speed.size(), 1U);
  EXPECT_EQ(partly.cells.at(0).speed.at(0).variant, "slow");
  for (VariantRow& variant : data.variants) variant.config_json = config.dump();
  const Report report = judge_results(data);
  const CellReport& cell = report.cells.at(0);
  EXPECT_TRUE(cell.speed.empty());
  EXPECT_THAT(cell.no_speed, HasSubstr("unknown key 'tiles'"));
  for (const Report* of : {&partly, &report}) {
    const std::string note = speed_notes(*of).at(0);
    EXPECT_THAT(note, testing::StartsWith("Throughput and roofline unknown in ema_swap: "));
    const auto sections = nlohmann::json::parse(render_json(*of)).at("sections");
    EXPECT_EQ(std::count_if(sections.begin(),
                            sections.end(),
                            [&](const nlohmann::json& section) {
                              const auto& notes = section.at("notes");
                              return section.at("id") == "roofline" &&
                                     std::count(notes.begin(), notes.end(), note) == 1;
                            }),
              1);
    for (const std::string& text : {render_table(*of, {.width = 1000, .unicode = true}),
                                    render_markdown(*of),
                                    render_html(*of)}) {
      EXPECT_THAT(text, HasSubstr("Throughput and roofline"));
      EXPECT_THAT(text, HasSubstr("cannot read the stored configuration"));
      EXPECT_THAT(text, HasSubstr("tiles"));
    }
  }
}

} // namespace speed_test
} // namespace assay
