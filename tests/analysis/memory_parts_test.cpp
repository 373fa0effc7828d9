// What the bytes at the peak are: read from memory launches, summed, and said.
#include <gmock/gmock.h>

#include <cmath>

#include "core/ledger/memory_parts.h"
#include "experiments/analysis/report.h"
#include "experiments/demo/synthetic_ledger.h"
#include "experiments/report/section.h"

namespace assay {
namespace memory_parts_test {

using synthetic::SyntheticCell;
using synthetic::SyntheticPlan;
using testing::ElementsAre;

constexpr double kMib = 1048576;

// Reference 100 MiB, level 164 MiB: 64 MiB more saved for backward in two layers, 2 MiB fewer
// gradients and 2 MiB more of what freed itself.
LedgerData ledger_with_parts() {
  SyntheticCell cell;
  cell.levels = {{.name = "slow"}, {.name = "fast", .memory_ratio = 1.64}};
  SyntheticPlan plan;
  plan.cells = {cell};
  LedgerData data = synthetic::synthetic_ledger(plan);
  std::vector<MetricRow> parts;
  for (const MetricRow& metric : data.metrics) {
    if (metric.path != "memory/peak_bytes" || !metric.variant) continue;
    const bool fast = metric.value > 150 * kMib;
    const auto add = [&](const char* phase, const char* module, double mib) {
      MetricRow part = metric;
      part.path = memory_part_metric(phase, module);
      part.value = mib * kMib;
      parts.push_back(part);
    };
    add("saved_for_backward", "layers.0.feed_forward", fast ? 40 : 10);
    add("saved_for_backward", "layers.1.feed_forward", fast ? 44 : 10);
    add("weights", "layers.0.feed_forward", 60);
    add("gradients", "head", fast ? 18 : 20);
    if (fast) add("backward", "", 2);
  }
  data.metrics.insert(data.metrics.end(), parts.begin(), parts.end());
  return data;
}

const MemoryEffect& memory_of(const Report& report) {
  return *report.cells.at(0).comparisons.at(0).memory;
}

std::vector<std::string> texts(const Section& section) {
  std::vector<std::string> rows;
  for (const SectionRow& row : section.rows) {
    std::string text;
    for (const std::string& one : row.texts) text += (text.empty() ? "" : " | ") + one;
    rows.push_back(text);
  }
  return rows;
}

TEST(MemoryParts, NamesAreReadBack) {
  const auto name = memory_part_of(memory_part_metric("ema_swap", ""));
  ASSERT_TRUE(name);
  EXPECT_EQ(*name, (std::pair<std::string, std::string>("ema_swap", "")));
  EXPECT_FALSE(memory_part_of("memory/peak_bytes"));
  EXPECT_FALSE(memory_part_of("memory/at_peak/weights"));
}

TEST(MemoryParts, AreOfBothSidesInTheOrderOfAStep) {
  const Report report = judge_results(ledger_with_parts());
  const std::vector<MemoryPartEffect>& parts = memory_of(report).parts;
  ASSERT_EQ(parts.size(), 5u);
  EXPECT_EQ(parts[0].phase, "weights");
  EXPECT_EQ(parts[1].phase, "gradients");
  EXPECT_EQ(parts[4].phase, "backward");
  EXPECT_EQ(parts[4].a_bytes, 0);
  EXPECT_EQ(parts[4].b_bytes, 2 * kMib);
}

TEST(MemoryParts, LayersAreSummedAndTheLargestDifferenceComesFirst) {
  const Report report = judge_results(ledger_with_parts());
  EXPECT_THAT(texts(memory_modules_section(memory_of(report), 2)),
              ElementsAre("feed_forward | saved for backward | 20.0 MiB | 84.0 MiB | +64.0 MiB",
                          "head | gradients | 20.0 MiB | 18.0 MiB | -2.0 MiB"));
  EXPECT_THAT(texts(memory_phases_section(memory_of(report))),
              ElementsAre("weights | 60.0 MiB | 60.0 MiB | 0",
                          "gradients | 20.0 MiB | 18.0 MiB | -2.0 MiB",
                          "saved for backward | 20.0 MiB | 84.0 MiB | +64.0 MiB",
                          "temporary, backward pass | 0 B | 2.0 MiB | +2.0 MiB"));
  EXPECT_EQ(memory_cause_text(memory_of(report)), "saved for backward +64.0 MiB");
}

TEST(MemoryParts, ASumThatIsNotThePeakIsSaid) {
  LedgerData data = ledger_with_parts();
  EXPECT_TRUE(memory_phases_section(memory_of(judge_results(data))).notes.empty());
  for (MetricRow& metric : data.metrics)
    if (metric.path == memory_part_metric("weights", "layers.0.feed_forward")) metric.value /= 2;
  EXPECT_THAT(memory_phases_section(memory_of(judge_results(data))).notes,
              ElementsAre(testing::HasSubstr("30.0 %")));
}

TEST(MemoryParts, OlderLedgersHaveNone) {
  SyntheticCell cell;
  cell.levels = {{.name = "slow"}, {.name = "fast"}};
  SyntheticPlan plan;
  plan.cells = {cell};
  const Report report = judge_results(synthetic::synthetic_ledger(plan));
  EXPECT_TRUE(memory_phases_section(memory_of(report)).empty());
  EXPECT_EQ(memory_cause_text(memory_of(report)), "");
}

TEST(MemoryParts, AClaimMayBeAboutSomePhases) {
  const Report report = judge_results(ledger_with_parts());
  // 60 and 20 MiB of the baseline, 60 and 84 of the candidate.
  const auto effect = effect_in_phases(memory_of(report), "weights,saved_for_backward");
  ASSERT_TRUE(effect);
  EXPECT_NEAR(effect->value, std::log(144.0 / 80), 1e-12);
  ASSERT_TRUE(effect->judged); // exact, as the peak is
  EXPECT_NEAR(effect->judged->lower, effect->value, 1e-12);
  EXPECT_FALSE(effect_in_phases(memory_of(report), "ema")); // the baseline has none
  EXPECT_FALSE(effect_in_phases(MemoryEffect{}, "weights"));
}

TEST(MemoryParts, JudgesAClaimByThePhasesThatItNames) {
  LedgerData data = ledger_with_parts();
  ClaimRow claim{.id = "gradients",
                 .optimization = "ema_swap",
                 .from = "slow",
                 .to = "fast",
                 .text = "10 % less",
                 .source = "a test",
                 .metric = "peak_memory",
                 .lo = 0.10,
                 .hi = 0.10,
                 .conditions = "",
                 .unmet = "",
                 .requires_json = "{}",
                 .stages = ""};
  claim.of = "gradients"; // 20 -> 18 MiB
  data.claims = {claim};
  const Report report = judge_results(data);
  ASSERT_EQ(report.claims.size(), 1u);
  EXPECT_NEAR(report.claims[0].gain.value(), 0.10, 1e-9);
  data.claims[0].of = "ema";
  const ClaimResult none = judge_results(data).claims[0];
  EXPECT_FALSE(none.gain);
  EXPECT_EQ(none.state, ClaimState::Undecided);
  EXPECT_EQ(none.reason.code, ReasonCode::NotMeasured);
}

// The newest readable curve; a damaged one is none.
TEST(StepMemory, IsReadFromTheLaunchOrNotThere) {
  LedgerData data = ledger_with_parts();
  EXPECT_FALSE(memory_of(judge_results(data)).a_curve);
  std::vector<MetricRow> curves;
  for (MetricRow metric : data.metrics) {
    if (metric.path != "memory/peak_bytes") continue;
    metric.path = kMemoryCurveMetric;
    metric.detail = R"({"ns":[0,2000000],"bytes":[5,7],"stages":[["forward",0,1000000]]})";
    curves.push_back(std::move(metric));
  }
  data.metrics.insert(data.metrics.end(), curves.begin(), curves.end());
  const Report report = judge_results(data);
  ASSERT_TRUE(memory_of(report).a_curve && memory_of(report).b_curve);
  EXPECT_THAT(memory_of(report).b_curve->ms, ElementsAre(0, 2));
  EXPECT_THAT(memory_of(report).b_curve->bytes, ElementsAre(5, 7));
  EXPECT_EQ(memory_of(report).b_curve->stages.at(0).name, "forward");
  EXPECT_EQ(memory_of(report).b_curve->stages.at(0).to_ms, 1);
  for (const char* detail : {"{", "[]", R"({"ns":[0],"bytes":[5,7],"stages":[]})"}) {
    for (MetricRow& metric : data.metrics)
      if (metric.path == kMemoryCurveMetric) metric.detail = detail;
    EXPECT_FALSE(memory_of(judge_results(data)).b_curve) << detail;
  }
}

} // namespace memory_parts_test
} // namespace assay
