#include <gtest/gtest.h>

#include "core/text.h"

namespace assay {
namespace suggestion_test {

TEST(Suggestion, IsAtMostTwoEditsAway) {
  EXPECT_EQ(closest("reprot", {"run", "report"}), "report"); // neighbours swapped are one edit
  EXPECT_EQ(closest("swpa", {"swap", "span"}), "swap");
  EXPECT_EQ(closest("varlenn", {"varlen"}), "varlen");
  EXPECT_EQ(closest("optimsatons", {"optimizations"}), "");
}

TEST(Suggestion, LeavesMoreThanHalfOfTheName) {
  EXPECT_EQ(closest("--foo", {"--fork", "--out"}), "");
  EXPECT_EQ(closest("rn", {"run"}), "run");
  EXPECT_EQ(closest("tpu", {"cpu", "cuda"}), "");
  EXPECT_EQ(closest("b", {"ab", "a"}), "");
  EXPECT_EQ(closest("--", {"--a", "-o"}), "");
}

TEST(Suggestion, MayBeAPrefixOrHaveOne) {
  EXPECT_EQ(closest("--dry", {"--traces", "--dry-run"}), "--dry-run");
  EXPECT_EQ(closest("seq_length", {"seq_len"}), "seq_len");
  EXPECT_EQ(closest("x", {"xylophone"}), "");
  EXPECT_EQ(closest("runner", {"report", "run"}), "run");
  EXPECT_EQ(closest("screen.kernel", {"kernel", "screen.kernels"}), "screen.kernels");
}

} // namespace suggestion_test
} // namespace assay
