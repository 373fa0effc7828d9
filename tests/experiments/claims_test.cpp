#include "experiments/claims.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/experiments/support.h"

namespace assay {
namespace {

using testing::HasSubstr;

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
  const auto claims =
      value_or_throw(load_claims(std::string(ASSAY_SOURCE_DIR) + "/experiments/claims"));
  EXPECT_EQ(claims.size(), 6u);
  for (const ClaimRow& claim : claims) {
    EXPECT_FALSE(claim.text.empty()) << claim.id;
    EXPECT_EQ(claim.unmet.empty(), claim.optimization != "grad_scaler") << claim.id;
  }
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

TEST(Claims, Mistakes) {
  EXPECT_EQ(problem(kClaim), "");
  EXPECT_THAT(problem(kClaim + "sauce = 1\n"),
              HasSubstr("c.toml:12: unknown key 'sauce' in [[claim]] (did you mean 'source'?)"));
  EXPECT_THAT(problem(changed("\"exchange\"", "\"exchang\"")),
              HasSubstr("c.toml:5: unknown level 'exchang' of optimization 'ema_swap' (did you "
                        "mean 'exchange'?)"));
  EXPECT_THAT(problem(changed("ema_swap", "ema_swop")),
              HasSubstr("c.toml:3: unknown optimization 'ema_swop'"));
  EXPECT_THAT(problem(changed("[0.6, 0.6]", "[0.6, 0.5]")),
              HasSubstr("c.toml:10: [[claim]] gain takes"));
  EXPECT_THAT(problem(changed("\"less\"", "\"more\"")), HasSubstr("direction must be \"less\""));
  EXPECT_THAT(problem(changed("peak_memory", "peak_memry")),
              HasSubstr("unknown metric 'peak_memry' (did you mean 'peak_memory'?)"));
  EXPECT_THAT(problem(kClaim + "requires = { device = \"tpu\" }\n"),
              HasSubstr("c.toml:12: [[claim]] requires: key 'device' takes one of cpu|cuda"));
  EXPECT_THAT(problem(kClaim + "stages = [\"foward\"]\n"),
              HasSubstr("c.toml:12: unknown stage 'foward' (did you mean 'forward'?); stages are: "
                        "data_wait, host_to_device, forward"));
  EXPECT_THAT(problem(kClaim + "stages = \"forward\"\n"),
              HasSubstr("c.toml:12: [[claim]] stages takes a list"));
  EXPECT_THAT(problem(kClaim + "stages = []\n"),
              HasSubstr("c.toml:12: [[claim]] stages takes a list"));
  EXPECT_THAT(problem(changed("source = \"a document, section 1\"\n", "")),
              HasSubstr("lacks the key 'source'"));
  EXPECT_THAT(problem(kClaim + kClaim), HasSubstr("claim id 'a' is used twice"));
  EXPECT_THAT(load_claims("/nowhere").error().message,
              HasSubstr("/nowhere: the claims directory cannot be read"));
}

} // namespace
} // namespace assay
