#include "experiments/demo/demo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <sstream>

#include "core/sqlite/database.h"
#include "core/trace/trace_file.h"
#include "experiments/analysis/explanations.h"
#include "tests/experiments/support.h"

namespace assay::test {
namespace demo_test {

using testing::HasSubstr;

// Every row of every table as text.
std::string dump(const std::string& path) {
  const Database db(path, Database::Mode::ReadOnly);
  std::string text;
  Statement tables =
      db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name");
  while (tables.step()) {
    Statement rows = db.prepare("SELECT * FROM \"" + tables.text(0) + "\"");
    for (text += tables.text(0) + "\n"; rows.step(); text += '\n')
      for (int column = 0; column < rows.columns(); ++column) text += rows.text(column) + "|";
  }
  return text;
}

class DemoTest : public testing::Test {
protected:
  static void SetUpTestSuite() {
    scratch = new Scratch;
    demo = new Demo(write_demo(*scratch / "demo"));
  }
  static void TearDownTestSuite() {
    delete demo;
    delete scratch;
  }
  static std::string directory() { return *scratch / "demo"; }
  static Report report() {
    return judge_results(value_or_throw(read_ledger(directory())), {.traces = directory()});
  }

  static Scratch* scratch;
  static Demo* demo;
};
Scratch* DemoTest::scratch = nullptr;
Demo* DemoTest::demo = nullptr;

TEST_F(DemoTest, IsTheSameEveryTime) {
  const Demo again = write_demo(*scratch / "again");
  EXPECT_EQ(dump(directory() + "/ledger.sqlite"), dump(*scratch / "again" + "/ledger.sqlite"));
  ASSERT_EQ(again.traces.size(), demo->traces.size());
  for (std::size_t i = 0; i < again.traces.size(); ++i)
    EXPECT_EQ(dump(again.traces[i]), dump(demo->traces[i])) << again.traces[i];
}

TEST_F(DemoTest, ShowsEveryKindOfResult) {
  const Report all = report();
  EXPECT_TRUE(all.complete()) << testing::PrintToString(all.missing);
  std::set<std::string> headlines;
  bool alarm = false;
  for (const CellReport& cell : all.cells) {
    for (const Comparison& comparison : cell.comparisons)
      headlines.insert(std::string(to_string(comparison.verdict.validity)) + " " +
                       std::string(to_string(comparison.verdict.speed)));
    alarm = alarm || (cell.control && cell.control->alarm);
  }
  for (const char* wanted : {"OK FASTER",
                             "OK SLOWER",
                             "OK NO_EFFECT",
                             "OK INCONCLUSIVE",
                             "PARITY_FAILED INCONCLUSIVE",
                             "NOT_ENGAGED INCONCLUSIVE",
                             "INVALID INCONCLUSIVE"})
    EXPECT_TRUE(headlines.count(wanted)) << wanted << " of " << testing::PrintToString(headlines);
  EXPECT_TRUE(alarm);
  std::set<ClaimState> claims;
  for (const ClaimResult& claim : all.claims) claims.insert(claim.state);
  EXPECT_EQ(claims.size(), 5u);
  const auto failed =
      std::find_if(all.launches.begin(), all.launches.end(), [](const LaunchSummary& l) {
        return l.row.state == LaunchState::Failed;
      });
  ASSERT_NE(failed, all.launches.end());
  EXPECT_THAT(failed->row.reason, HasSubstr("illegal memory access"));
}

TEST_F(DemoTest, TracesExplainTheTimedDifferenceAndItCloses) {
  const Report all = report();
  int explained = 0;
  for (const CellReport& cell : all.cells)
    for (const Comparison& comparison : cell.comparisons) {
      EXPECT_EQ(comparison.explanation.has_value(), cell.cell.traced_rounds > 0) << cell.cell.name;
      if (!comparison.explanation) continue;
      ++explained;
      const Waterfall& waterfall = comparison.explanation->waterfall;
      EXPECT_EQ(waterfall.unusable, "");
      EXPECT_EQ(waterfall.pairs, 10u);
      for (const TraceHealth& side : {waterfall.a, waterfall.b}) { // tracing costs time
        EXPECT_GT(side.traced_over_timed, 1) << side.path;
        EXPECT_LT(side.traced_over_timed, 1.08) << side.path;
      }
      EXPECT_TRUE(waterfall.closed) << comparison.b << ' ' << waterfall.residual_share;
      EXPECT_LT(std::abs(waterfall.residual_ns), 0.25 * std::abs(waterfall.timed_delta_ns))
          << comparison.b;
    }
  EXPECT_EQ(explained, 4);
  const Comparison& varlen = all.cells.front().comparisons[1];
  EXPECT_EQ(varlen.b, "varlen");
  EXPECT_GT(*gain_share(varlen.explanation->waterfall, {Stage::Forward, Stage::Backward}), 0.9);
  EXPECT_EQ(varlen.explanation->traced_as, "device");
  EXPECT_EQ(varlen.verdict.claim, ClaimState::Confirmed);
}

TEST_F(DemoTest, TracesHoldEveryKindOfRow) {
  const Trace gpu = value_or_throw(read_trace(demo->traces.front()));
  EXPECT_TRUE(gpu.on_gpu());
  for (const std::size_t rows : {gpu.steps.size(),
                                 gpu.device.size(),
                                 gpu.api.size(),
                                 gpu.syncs.size(),
                                 gpu.spans.size(),
                                 gpu.operators.size(),
                                 gpu.telemetry.size(),
                                 gpu.audit.size()})
    EXPECT_GT(rows, 0u);
  const Trace host = value_or_throw(read_trace(demo->traces.back()));
  EXPECT_FALSE(host.on_gpu());
  EXPECT_GT(host.operators.size(), 0u);
}

TEST_F(DemoTest, KeepsTheRulesOfTheEngine) {
  const LedgerData data = value_or_throw(read_ledger(directory()));
  const auto timed = [&](std::int64_t variant) {
    return std::any_of(data.visits.begin(), data.visits.end(), [&](const VisitRow& visit) {
      return visit.variant == variant;
    });
  };
  for (const GateRow& gate : data.gates) EXPECT_EQ(timed(gate.variant), gate.passed);
  for (const LaunchRow& launch : data.launches) {
    std::istringstream names(launch.build_order);
    for (std::string name; names >> name;)
      EXPECT_TRUE(std::any_of(data.variants.begin(), data.variants.end(), [&](const VariantRow& v) {
        return v.cell == launch.cell && v.name == name;
      })) << name;
  }
}

TEST_F(DemoTest, NeverWritesOverAnything) {
  const std::string before = dump(directory() + "/ledger.sqlite");
  EXPECT_THROW(write_demo(directory()), Failure);
  EXPECT_EQ(dump(directory() + "/ledger.sqlite"), before);
  const std::string file = scratch->write("file", "x");
  EXPECT_THROW(write_demo(file), Failure);
}

} // namespace demo_test
} // namespace assay::test
