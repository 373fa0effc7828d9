#include "core/statistics/looks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "core/ledger/looks.h"
#include "core/statistics/statistics.h"

namespace assay {
namespace looks_test {

using testing::ElementsAre;

// By SciPy: Simpson's rule over scipy.stats.norm and brentq for each bound.
TEST(Looks, LevelsOfEachLook) {
  const std::vector<double> levels = look_levels(0.05, {5, 8, 12});
  ASSERT_EQ(levels.size(), 3u);
  EXPECT_NEAR(levels[0], 0.00798611, 1e-7); // 0.92 x 0.05 (5 / 12)^2
  EXPECT_NEAR(levels[1], 0.01610102, 1e-7);
  EXPECT_NEAR(levels[2], 0.03573514, 1e-7);
  EXPECT_NEAR(look_levels(0.0125, {5, 8, 12})[2], 0.00834862, 1e-7);
  EXPECT_NEAR(look_levels(0.05, {5})[0], 0.05, 1e-9);
}

// Of 40,000 cells without an effect, those that a look calls different by the t interval of launch
// values: alpha, and 0.92 alpha where the scatter were known.
TEST(LooksSimulation, AllLooksTogetherKeepAlpha) {
  constexpr int kCells = 40'000;
  const std::vector<int> looks{5, 8, 12};
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  for (const double alpha : {0.05, 0.0125}) {
    const std::vector<double> levels = look_levels(alpha, looks);
    int known = 0, estimated = 0, last = 0;
    for (int cell = 0; cell < kCells; ++cell) {
      std::vector<double> all(12), seen;
      for (double& value : all) value = normal(random);
      bool z = false, t = false;
      for (std::size_t i = 0; i < looks.size(); ++i) {
        seen.assign(all.begin(), all.begin() + looks[i]);
        const double p = std::erfc(std::abs(mean(seen)) * std::sqrt(looks[i]) / std::sqrt(2.0));
        z = z || p < levels[i];
        t = t || !t_interval(seen, levels[i])->contains(0);
      }
      known += z;
      estimated += t;
      last += !t_interval(all, alpha)->contains(0);
    }
    const double margin = 3.3 * std::sqrt(alpha * (1 - alpha) / kCells);
    EXPECT_NEAR(static_cast<double>(known) / kCells, 0.92 * alpha, margin) << alpha;
    EXPECT_NEAR(static_cast<double>(estimated) / kCells, alpha, margin) << alpha;
    EXPECT_NEAR(static_cast<double>(last) / kCells, alpha, margin) << alpha;
  }
}

CellRow cell_with_looks(std::int64_t id) {
  CellRow cell;
  cell.id = id;
  cell.launches = 12;
  cell.looks = {5, 8, 12};
  return cell;
}

LedgerData with_looks() {
  LedgerData data;
  data.cells.push_back(cell_with_looks(1));
  for (int index = 1; index <= 12; ++index) {
    LaunchRow launch;
    launch.id = index;
    launch.cell = 1;
    launch.kind = LaunchKind::Timed;
    launch.index = index;
    data.launches.push_back(launch);
  }
  return data;
}

EventRow look_after(std::int64_t launch, const char* cause) {
  return {launch, -1, "", "look", "", 0, cause};
}

TEST(Looks, PlannedLaunchesReachToTheNextLook) {
  LedgerData data = with_looks();
  const CellRow cell = data.cells[0];
  EXPECT_EQ(data.planned_launches(cell), 5);
  data.events.push_back(look_after(5, kCauseOpen));
  EXPECT_EQ(data.planned_launches(cell), 8);
  EXPECT_EQ(current_look(data, cell), 1u);
  data.events.push_back(look_after(8, kCauseDecided));
  EXPECT_EQ(data.planned_launches(cell), 8);
  EXPECT_EQ(current_look(data, cell), 1u);
  EXPECT_TRUE(look_state(data, cell).decided);
  data.events.back() = look_after(8, kCauseOpen);
  data.events.push_back(look_after(12, kCauseOpen));
  EXPECT_EQ(data.planned_launches(cell), 12);
  EXPECT_EQ(current_look(data, cell), 2u);
  EXPECT_FALSE(look_state(data, cell).decided);
}

TEST(Looks, AreStoredAsAList) {
  EXPECT_EQ(looks_text({5, 8, 12}), "5,8,12");
  EXPECT_EQ(parse_looks("5,8,12"), (std::vector{5, 8, 12}));
  EXPECT_EQ(parse_looks(""), std::vector<int>{});
  for (const char* text : {"5,x", "5;8", ",5", "99999999999"})
    EXPECT_EQ(parse_looks(text), std::nullopt) << text;
}

TEST(Looks, EventsOfOtherCellsAndKindsAreNoLooks) {
  LedgerData data = with_looks();
  data.cells.push_back(cell_with_looks(2));
  data.launches[4].cell = 2;
  data.events.push_back(look_after(5, kCauseDecided));
  data.events.push_back({8, -1, "", "stopped", "", 0, kCauseDecided});
  EXPECT_EQ(look_state(data, data.cells[0]).taken, 0u);
  EXPECT_EQ(look_state(data, data.cells[1]).taken, 1u);
}

} // namespace looks_test
} // namespace assay
