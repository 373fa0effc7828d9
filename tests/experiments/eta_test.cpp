#include "experiments/engine/eta.h"

#include <gtest/gtest.h>

namespace assay {
namespace eta_test {

LedgerData data_of(int rounds, int traced_rounds) {
  LedgerData data;
  CellRow cell;
  cell.id = 1;
  cell.rounds = rounds;
  cell.traced_rounds = traced_rounds;
  data.cells.push_back(cell);
  return data;
}

const LaunchTask kTimed{1, LaunchKind::Timed}, kTraced{1, LaunchKind::Traced};

TEST(Eta, ATracedLaunchTakesAsManyTimesLongerAsItHasMoreRounds) {
  Eta eta;
  eta.read(data_of(10, 4000));
  EXPECT_EQ(eta.expected(kTraced), std::nullopt);
  eta.finished(kTimed, 3);
  EXPECT_DOUBLE_EQ(*eta.expected(kTraced), 1200);
  eta.finished(kTraced, 240); // what one took says more
  EXPECT_DOUBLE_EQ(*eta.expected(kTraced), 240);
}

TEST(Eta, OneWithFewerRoundsTakesNoLess) {
  Eta eta;
  eta.read(data_of(40, 10));
  eta.finished(kTimed, 3);
  EXPECT_DOUBLE_EQ(*eta.expected(kTraced), 3); // it is built and warmed up all the same
}

} // namespace eta_test
} // namespace assay
