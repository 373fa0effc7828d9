#include "experiments/plan/claims_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tests/experiments/support.h"
#include "tests/paths.h"

namespace assay {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

const std::string kClaim = R"([[claim]]
id = "a"
optimization = "ema_swap"
from = "clone_copy"
to = "exchange"
text = "60 % less"
source = "a document, section 1"
metric = "peak_memory"
direction = "less"
gain = [0.6, 0.6]
conditions = "any"
)";

std::string problem(const std::string& text) {
  const test::Scratch scratch;
  const Result<std::vector<ClaimRow>> claims = load_claim_files({scratch.write("c.toml", text)});
  return claims ? "" : claims.error().message;
}

std::string changed(const std::string& from, const std::string& to) {
  std::string text = kClaim;
  return text.replace(text.find(from), from.size(), to);
}

TEST(Claims, TheShippedOnesLoad) {
  const auto claims = value_or_throw(load_claims(test::source_dir() + "/experiments/claims"));
  EXPECT_EQ(claims.size(), 31u);
  for (const ClaimRow& claim : claims) {
    EXPECT_FALSE(claim.text.empty()) << claim.id;
    // A cause that no level of its row switches, a level that is never timed, a share of nothing
    // named, and what FP8 does rather than the scaler.
    const std::set<std::string> untestable{"ema-swap-speed",
                                           "validation-ranks-barrier",
                                           "ema-swap-memory",
                                           "grad-scaler-report-memory",
                                           "grad-scaler-report-speed"};
    EXPECT_EQ(claim.unmet.empty(), !untestable.contains(claim.id)) << claim.id;
  }
}

// A range that the quotation does not hold was invented. Claims computed from quoted bytes say so
// with a comment in their file.
TEST(Claims, TheShippedRangesStandInTheirQuotations) {
  const auto claims = value_or_throw(load_claims(test::source_dir() + "/experiments/claims"));
  for (const ClaimRow& claim : claims) {
    if (claim.id == "ema-swap-validation-memory") continue; // 12 GB -> 5 GB
    for (const double end : {claim.lo, claim.hi}) {
      if (end == 0 || std::isinf(end)) continue;
      const std::string percent = fmt::format("{:g}", 100 * end),
                        factor = fmt::format("{:g}×", 1 + end); // "2×–10×"
      EXPECT_THAT(claim.text, AnyOf(HasSubstr(percent), HasSubstr(factor))) << claim.id;
    }
  }
}

TEST(Claims, ShippedLintsBearOnTheClaimsOfTheirDocument) {
  const auto claims = value_or_throw(load_claims(test::source_dir() + "/experiments/claims"));
  const auto lints = [&](const std::string& id) {
    for (const ClaimRow& claim : claims)
      if (claim.id == id) return claim.lints;
    return std::string("no such claim");
  };
  // 6 x 250e6 x 55e3 = 8.25e13; / 2.25e15 = 3.67 %. 100e3 x 98304 / 35e3 = 280,869 s = 78.0 h.
  EXPECT_THAT(lints("varlen-throughput"), HasSubstr("82.5 TFLOP/s, 3.7 % of the peak"));
  EXPECT_THAT(lints("varlen-throughput"), HasSubstr("take 78 h, not 150 h"));
  EXPECT_THAT(lints("varlen-throughput"),
              HasSubstr("16 devices at 95 % or more scale better than 8 at 95 % or less"));
  EXPECT_THAT(lints("varlen-throughput"), HasSubstr("= 2.39, not 3.3"));
  EXPECT_THAT(lints("varlen-throughput"), Not(HasSubstr("learned nothing"))); // of grad_scaler
  EXPECT_THAT(lints("grad-scaler-speed"), HasSubstr("(ln 50304 = 10.83)"));
  EXPECT_THAT(lints("ema-swap-validation-memory"),
              HasSubstr("2 copies of 1 G parameters of 4 bytes are 8 GB, not 5 GB"));
  EXPECT_THAT(lints("ema-swap-memory"), Not(HasSubstr("copies of"))); // another document's figure
}

TEST(Claims, ReadsEveryField) {
  const test::Scratch scratch;
  const auto claims = value_or_throw(
      load_claim_files({scratch.write("c.toml",
                                      kClaim + "requires = { device = \"cuda\", precision = "
                                               "[\"bf16\", \"fp16\"] }\nunmet = \"no\"\n"
                                               "stages = [\"forward\", \"host_to_device\"]\n")}));
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].lo, 0.6);
  EXPECT_EQ(claims[0].hi, 0.6);
  EXPECT_EQ(claims[0].requires_json, R"({"device":"cuda","precision":["bf16","fp16"]})");
  EXPECT_EQ(claims[0].unmet, "no");
  EXPECT_EQ(claims[0].stages, "forward,host_to_device");
}

TEST(Claims, AClaimWithoutAFigureAndALintWithoutAClaim) {
  const test::Scratch scratch;
  const auto claims = value_or_throw(load_claim_files(
      {scratch.write("c.toml", changed("[0.6, 0.6]", "[0.0, inf]")),
       scratch.write("d.toml",
                     "[[check]]\ndocument = \"another\"\nsection = \"1\"\ntext = "
                     "\"t\"\nkind = \"ratio\"\nvalue = 1\nof = 2\nstated = 4\n")}));
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].lo, 0);
  EXPECT_TRUE(std::isinf(claims[0].hi));
  EXPECT_EQ(claims[0].lints, "");
}

// What no measurement can be held against; a wrong gain hides no other mistake and makes none.
TEST(Claims, ImpossibleGainsAreRefused) {
  for (const char* gain : {"[1.5, 2.0]",
                           "[1, 1]",
                           "[0.5, 1.0]",
                           "[inf, inf]",
                           "[nan, 0.1]",
                           "[0.1, nan]",
                           "[-inf, 0.1]",
                           "[0.1]",
                           "0.1",
                           "[\"10 %\", \"15 %\"]"}) {
    const std::string message = problem(changed("[0.6, 0.6]", gain));
    EXPECT_THAT(
        message,
        HasSubstr("c.toml:10: [[claim]] 'a' gain takes [lowest, highest] as shares below 1"))
        << gain;
    EXPECT_THAT(message, Not(HasSubstr("direction"))) << gain;
  }
  EXPECT_THAT(problem(changed("[0.6, 0.6]", "[nan, 0.1]")), HasSubstr(", not [nan, 0.1]"));
  for (const char* gain : {"[0.5, 0.99]", "[0.5, inf]", "[0.0, inf]", "[-0.1, 0.1]"})
    EXPECT_EQ(problem(changed("[0.6, 0.6]", gain)), "") << gain;
  std::string faster = changed("peak_memory", "throughput");
  faster.replace(faster.find("\"less\""), 6, "\"more\"");
  faster.replace(faster.find("[0.6, 0.6]"), 10, "[1.5, 2.0]");
  EXPECT_EQ(problem(faster), "") << "three times the throughput is a gain of 2";
}

TEST(Claims, ConditionsThatNoRunCanMeetAreRefused) {
  EXPECT_THAT(problem(kClaim + "requires = { threads = [] }\n"),
              HasSubstr("c.toml:12: [[claim]] 'a' requires: key 'threads' allows no value at all"));
  EXPECT_THAT(problem(kClaim + "requires = { ema_swap = \"exchange\" }\n"),
              HasSubstr("'ema_swap' is what optimization 'ema_swap' switches"));
}

TEST(Claims, Mistakes) {
  EXPECT_EQ(problem(kClaim), "");
  EXPECT_THAT(
      problem(kClaim + "sauce = 1\n"),
      HasSubstr("c.toml:12: unknown key 'sauce' in [[claim]] 'a' (did you mean 'source'?)"));
  EXPECT_THAT(problem(changed("\"exchange\"", "\"exchang\"")),
              HasSubstr("c.toml:5: unknown level 'exchang' of optimization 'ema_swap' (did you "
                        "mean 'exchange'?)"));
  EXPECT_THAT(problem(changed("ema_swap", "ema_swop")),
              HasSubstr("c.toml:3: unknown optimization 'ema_swop'"));
  EXPECT_THAT(problem(changed("[0.6, 0.6]", "[0.6, 0.5]")),
              HasSubstr("c.toml:10: [[claim]] 'a' gain takes"));
  EXPECT_THAT(problem(changed("\"less\"", "\"more\"")), HasSubstr("direction must be \"less\""));
  EXPECT_THAT(problem(changed("peak_memory", "peak_memry")),
              HasSubstr("unknown metric 'peak_memry' (did you mean 'peak_memory'?)"));
  EXPECT_THAT(problem(kClaim + "requires = { gpu = [\"PCI\", 4] }\n"),
              HasSubstr("c.toml:12: [[claim]] 'a' requires: gpu takes a part of the board's name"));
  EXPECT_THAT(problem(kClaim + "requires = { device = \"tpu\" }\n"),
              HasSubstr("c.toml:12: [[claim]] 'a' requires: key 'device' takes one of cpu|cuda"));
  EXPECT_THAT(problem(kClaim + "stages = [\"foward\"]\n"),
              HasSubstr("c.toml:12: unknown stage 'foward' (did you mean 'forward'?); stages are: "
                        "data_wait, host_to_device, forward"));
  EXPECT_THAT(problem(kClaim + "stages = \"forward\"\n"),
              HasSubstr("c.toml:12: [[claim]] 'a' stages takes a list"));
  EXPECT_THAT(problem(kClaim + "stages = []\n"),
              HasSubstr("c.toml:12: [[claim]] 'a' stages takes a list"));
  EXPECT_THAT(problem(changed("source = \"a document, section 1\"\n", "")),
              HasSubstr("lacks the key 'source'"));
  EXPECT_THAT(problem(kClaim + kClaim), HasSubstr("claim id 'a' is used twice"));
  const std::string check = "[[check]]\ndocument = \"a\"\nsection = \"1\"\ntext = \"t\"\n";
  EXPECT_THAT(problem(check + "kind = \"rato\"\n"),
              HasSubstr("c.toml:5: unknown kind 'rato' (did you mean 'ratio'?); kinds are: mfu"));
  EXPECT_THAT(problem(check + "kind = \"ratio\"\nvalue = 1\nof = 0\nstated = [1]\n"),
              AllOf(HasSubstr("c.toml:7: [[check]] of takes a number above 0"),
                    HasSubstr("c.toml:8: [[check]] stated takes a number above 0")));
  EXPECT_THAT(problem(check + "kind = \"ratio\"\nvalue = 1\nof = 2\n"),
              HasSubstr("[[check]] lacks the key 'stated'"));
  EXPECT_THAT(problem(check + "kind = \"scaling\"\ndevice_counts = [1, 2]\nlowest = [0.9]\n"
                              "highest = [1.0, 1.0]\n"),
              HasSubstr("[[check]] lists of one check have one length"));
  EXPECT_THAT(load_claims("/nowhere").error().message,
              HasSubstr("/nowhere: the claims directory cannot be read"));
}

} // namespace
} // namespace assay
