#include "experiments/plan/claims/claims_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "core/lines.h"
#include "experiments/analysis/claims.h"
#include "experiments/analysis/wording.h"
#include "model/config/optimization.h"
#include "tests/experiments/support.h"
#include "tests/names.h"
#include "tests/paths.h"

namespace assay {
namespace claims_test {

using testing::AllOf;
using testing::AnyOf;
using testing::ElementsAre;
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

std::vector<std::string> parts_of(const std::string& text) {
  const std::string border = " … ";
  std::vector<std::string> parts;
  for (std::size_t from = 0;;) {
    const std::size_t next = text.find(border, from);
    parts.push_back(text.substr(from, next == std::string::npos ? next : next - from));
    if (next == std::string::npos) return parts;
    from = next + border.size();
  }
}

std::string changed(const std::string& from, const std::string& to) {
  std::string text = kClaim;
  return text.replace(text.find(from), from.size(), to);
}

// A missing key is one problem with its line, not also a wrong value of the keys that depend on it.
TEST(Claims, AMissingKeyIsReportedOnce) {
  for (const char* key : {"metric", "direction", "gain", "optimization", "from"}) {
    std::string text = kClaim;
    const std::size_t from = text.find("\n" + std::string(key) + " =") + 1;
    text.erase(from, text.find('\n', from) + 1 - from);
    const std::string message = problem(text);
    EXPECT_THAT(message,
                testing::EndsWith(fmt::format("c.toml:1: [[claim]] 'a' lacks the key '{}'", key)));
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
  const std::string check = problem(
      "[[check]]\ndocument = \"d\"\nsection = \"1\"\ntext = \"t\"\nterms = [1]\nstated = 1\n");
  EXPECT_THAT(check, testing::EndsWith("c.toml:1: [[check]] lacks the key 'kind'"));
}

TEST(Claims, TheShippedOnesLoad) {
  const auto claims = value_or_throw(load_claims(test::source_dir() + "/experiments/claims"));
  std::vector<std::string> testable, settings;
  for (const ClaimRow& claim : claims) {
    if (claim.metric == kSetting)
      settings.push_back(claim.id);
    else if (claim.unmet.empty())
      testable.push_back(claim.id);
  }
  // All others compare rows or levels that this build does not have.
  EXPECT_THAT(testable,
              ElementsAre("bf16-guard-overhead",
                          "bf16-guard-report",
                          "ddp-accumulate",
                          "batch-per-rank",
                          "validation-ranks-idle",
                          "validation-ranks-summary",
                          "moe-router-cost",
                          "moe-router-speed",
                          "value-padding",
                          "ema-swap-memory",
                          "ema-swap-validation-memory",
                          "ema-swap-validation-time",
                          "ema-swap-validation-faster",
                          "fp8-memory",
                          "fp8-throughput",
                          "fp8-report-memory",
                          "fp8-report-throughput",
                          "fp8-report-total-memory",
                          "fp8-delta-memory",
                          "grad-scaler-convergence",
                          "grad-scaler-report-convergence",
                          "hydra-value-shift",
                          "hydra-synthetic",
                          "ladder-attention",
                          "ladder-phase-3",
                          "nsa-ranges-vectorized",
                          "nsa-ranges-kernel",
                          "nsa-ranges-direct",
                          "nsa-ranges-bottleneck",
                          "rwmba-batch",
                          "rwmba-amp",
                          "rwmba-int8",
                          "speed-gdn-kernel",
                          "speed-delta-inputs",
                          "speed-loss-head",
                          "speed-loss-head-64mib",
                          "speed-norms",
                          "speed-ffn-gate",
                          "speed-mla-inputs",
                          "speed-rotary-complex",
                          "speed-mla-attention",
                          "speed-mla-attention-rows",
                          "speed-weights16",
                          "speed-update-pass",
                          "speed-update-pass-foreach",
                          "speed-update-pass-per-parameter",
                          "speed-step-graph",
                          "speed-residual16",
                          "speed-residual16-memory",
                          "speed-fp8",
                          "speed-fp8-memory",
                          "speed-nsa-inputs",
                          "speed-nsa-step-graph",
                          "speed-product-choice",
                          "speed-product-choice-6",
                          "speed-nsa-product-choice",
                          "varlen-throughput",
                          "varlen-pytorch",
                          "varlen-report",
                          "varlen-report-check",
                          "varlen-phase-2"));
  EXPECT_THAT(settings,
              ElementsAre("ddp-buckets-default",
                          "ddp-buckets-larger",
                          "ddp-static-graph",
                          "ddp-find-unused",
                          "grad-scaler-amp"));
}

// A quotation is parts of its source with " … " between them, a source "document, section".
TEST(Claims, TheShippedQuotationsAreWhole) {
  const auto claims = value_or_throw(load_claims(test::source_dir() + "/experiments/claims"));
  EXPECT_GE(claims.size(), 78u);
  for (const ClaimRow& claim : claims) {
    for (const std::string& part : parts_of(claim.text)) {
      EXPECT_FALSE(part.empty()) << claim.id;
      EXPECT_EQ(part.find_first_not_of(" "), 0u) << claim.id << ": '" << part << "'";
      EXPECT_NE(part.back(), ' ') << claim.id << ": '" << part << "'";
    }
    EXPECT_THAT(claim.source, HasSubstr(", section")) << claim.id;
    EXPECT_FALSE(claim.conditions.empty()) << claim.id;
    EXPECT_LE(claim.lo, claim.hi) << claim.id;
    EXPECT_TRUE(std::isfinite(claim.lo)) << claim.id;
    EXPECT_THAT(claimed_text(claim), Not(HasSubstr("_"))) << claim.id << ": its unit in words";
  }
}

// Rows that this build lacks are free names: each stands here, so that a mistyped one is found.
TEST(Claims, TheShippedOnesNameRowsThatExistOrArePlanned) {
  const std::set<std::string> planned{"attention_backend",

                                      "contiguous",
                                      "contiguous_qk",
                                      "delta_norm",
                                      "delta_projection",
                                      "ema_update",
                                      "kv_product",
                                      "ladder",
                                      "layer_pattern",
                                      "loader_workers"};
  std::set<std::string> named;
  for (const ClaimRow& claim :
       value_or_throw(load_claims(test::source_dir() + "/experiments/claims")))
    if (!claim.optimization.empty() && !optimizations().lookup(claim.optimization))
      named.insert(claim.optimization);
  EXPECT_EQ(named, planned);
}

// A range that the quotation does not hold was invented. Claims computed from quoted figures say
// so with a comment in their file.
TEST(Claims, TheShippedRangesStandInTheirQuotations) {
  const auto claims = value_or_throw(load_claims(test::source_dir() + "/experiments/claims"));
  for (const ClaimRow& claim : claims) {
    const std::set<std::string> computed{"ema-swap-memory",
                                         "ema-swap-validation-memory",
                                         "ema-swap-validation-time",
                                         "grad-scaler-convergence",
                                         "grad-scaler-report-convergence",
                                         "batch-per-rank",
                                         "validation-ranks-barrier",
                                         "ladder-cluster",
                                         "hydra-value-shift",
                                         "hydra-synthetic"};
    if (computed.contains(claim.id)) continue;
    for (const double end : {claim.lo, claim.hi}) {
      if (end == 0 || std::isinf(end)) continue;
      const std::string percent = fmt::format("{:g}", std::abs(100 * end)),
                        factor = fmt::format("{:g}", 1 + end); // "2×–10×", "1.5-2x"
      EXPECT_THAT(claim.text,
                  AnyOf(HasSubstr(percent + "%"),
                        HasSubstr(percent + "-"), // "10-15%"
                        HasSubstr(factor + "×"),
                        HasSubstr(factor + "x"),
                        HasSubstr(factor + "-")))
          << claim.id << ' ' << end;
    }
  }
}

TEST(Claims, ShippedErrorsBearOnTheClaimsOfTheirSource) {
  const auto claims = value_or_throw(load_claims(test::source_dir() + "/experiments/claims"));
  const auto errors = [&](const std::string& id) {
    for (const ClaimRow& claim : claims)
      if (claim.id == id) return text_of(claim.source_errors);
    return std::string("no such claim");
  };
  // 6 x 250e6 x 55e3 = 8.25e13; / 2.25e15 = 3.67 %.
  EXPECT_THAT(errors("varlen-throughput"), test::names("82.5 TFLOP/s", "3.7 %"));
  EXPECT_THAT(errors("varlen-throughput"), HasSubstr("2.39, not 3.3"));
  EXPECT_THAT(errors("varlen-throughput"),
              test::names("x1.571, not x1.8", "x1.8 to 2.2")); // 55 / 35
  EXPECT_THAT(errors("varlen-throughput"), test::names("440 K together", "not 500 K"));
  EXPECT_THAT(errors("varlen-throughput"), Not(HasSubstr("not 150 h"))); // fits accumulation 8
  EXPECT_THAT(errors("varlen-throughput"), Not(HasSubstr("10.83")));     // of grad_scaler
  EXPECT_THAT(errors("grad-scaler-convergence"), HasSubstr("50304 = 10.83"));
  EXPECT_THAT(errors("fp8-memory"), test::names("x0.8889, not x0.7", "x0.7 to 0.75"));
  EXPECT_THAT(errors("fp8-report-memory"), test::names("x0.7778 to 0.8889", "x0.7 to 0.75"));
  EXPECT_THAT(errors("varlen-report"), test::names("x1.091 to 1.1", "not x1.12"));
  for (const char* id : {"ema-swap-memory", "ema-swap-validation-memory"})
    EXPECT_THAT(errors(id), test::names("8 GB, not", "not 5 GB")) << id;
  EXPECT_THAT(errors("ema-swap-memory"), test::names(" 4 G, not", "not 8 G"));
  EXPECT_THAT(errors("moe-router-cost"), HasSubstr("factor of 64"));
  EXPECT_THAT(errors("ladder-report-phase-1"), test::names("0.25 to 0.35", "0.4 to 0.5"));
  EXPECT_THAT(errors("hydra-routing"),
              test::names("6.5 G, not",
                          "not 5.4 G",
                          "200 MB, not",
                          "not 135 MB",
                          "as 8",
                          "2 to 4",
                          "1.2e+09",      // logits whole
                          "1 to 6e+08")); // and in chunks
  EXPECT_THAT(errors("rwmba-amp"),
              test::names("e^1.37 = 3.94,", "3.94, not 3", "0.0889 h, not", "not 0.667 h"));
  EXPECT_THAT(errors("v45-conservative"), test::names("4.5 to 8,", "8, not 3"));
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

TEST(Claims, APeakMayBeOfSomePhasesOfMemory) {
  const test::Scratch scratch;
  const std::string text = kClaim + "of = [\"weights\", \"ema\"]\n";
  const auto claims = value_or_throw(load_claim_files({scratch.write("c.toml", text)}));
  EXPECT_EQ(claims.at(0).of, "weights,ema");
  EXPECT_THAT(claimed_text(claims[0]), HasSubstr("peak memory in weights, EMA"));
  EXPECT_THAT(problem(kClaim + "of = [\"weigths\"]\n"),
              test::names("of", "weigths", "did you mean 'weights'"));
  EXPECT_THAT(problem(changed("peak_memory", "step_time") + "of = [\"weights\"]\n"),
              test::names("of", "peak_memory", "step_time"));
}

TEST(Claims, ASettingClaimsNoGain) {
  std::string setting = kClaim;
  for (const char* line :
       {"metric = \"peak_memory\"\n", "direction = \"less\"\n", "gain = [0.6, 0.6]\n"})
    setting.erase(setting.find(line), std::string(line).size());
  const test::Scratch scratch;
  const auto claims =
      value_or_throw(load_claim_files({scratch.write("c.toml", setting + "kind = \"setting\"\n")}));
  EXPECT_EQ(claims.at(0).metric, kSetting);
  EXPECT_FALSE(claim_metric(claims[0].metric));
  EXPECT_THAT(problem(kClaim + "kind = \"setting\"\n"), HasSubstr("unknown key 'gain'"));
  EXPECT_THAT(problem(kClaim + "kind = \"seting\"\n"), HasSubstr("c.toml:12: "));
  EXPECT_THAT(problem(setting), test::names("lacks", "'gain'"));
}

TEST(Claims, WhatThisBuildLacksIsNamedByClaimsThatSaySo) {
  const std::string row = changed("\"ema_swap\"", "\"another\""),
                    metric = changed("peak_memory", "memory_traffic");
  EXPECT_THAT(problem(row), test::names("c.toml:3:", "optimization 'another'"));
  EXPECT_EQ(problem(row + "unmet = \"no such row\"\n"), "");
  EXPECT_THAT(problem(metric), test::names("c.toml:8:", "'a': metric 'memory_traffic'"));
  EXPECT_EQ(problem(metric + "unmet = \"not measured\"\n"), "");
}

TEST(Claims, AClaimWithoutAFigureAndAnErrorWithoutAClaim) {
  const test::Scratch scratch;
  const auto claims = value_or_throw(load_claim_files(
      {scratch.write("c.toml", changed("[0.6, 0.6]", "[0.0, inf]")),
       scratch.write("d.toml",
                     "[[check]]\ndocument = \"another\"\nsection = \"1\"\ntext = "
                     "\"t\"\nkind = \"ratio\"\nvalue = 1\nof = 2\nstated = 4\n")}));
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].lo, 0);
  EXPECT_TRUE(std::isinf(claims[0].hi));
  EXPECT_TRUE(claims[0].source_errors.empty());
}

// The claim of a file with a check of `document` that fails.
ClaimRow checked_claim(const std::string& claim, const std::string& document) {
  const test::Scratch scratch;
  const std::string check = "[[check]]\ndocument = \"" + document +
                            "\"\nsection = \"1\"\ntext = \"t\"\nkind = \"ratio\"\nvalue = "
                            "1\nof = 2\nstated = 4\n";
  return value_or_throw(load_claim_files({scratch.write("c.toml", claim + check)})).at(0);
}

const std::string kSource = "source = \"a document, section 1\"\n";

TEST(Claims, AnErrorIsOfTheWholeNameOfADocument) {
  const std::string named =
      changed(kSource, "document = \"a document\"\nsection = \"section 1\"\n");
  for (const std::string& claim : {kClaim, named}) {
    EXPECT_EQ(checked_claim(claim, "a document").source, "a document, section 1");
    EXPECT_THAT(checked_claim(claim, "a document").source_errors,
                ElementsAre(HasSubstr("0.5, not 4")));
    EXPECT_TRUE(checked_claim(claim, "a doc").source_errors.empty());
  }
  EXPECT_THAT(checked_claim(kClaim, "a document, section 1").source_errors,
              ElementsAre(HasSubstr("not 4")));
}

// A comma in the name of a document parts it from no section.
TEST(Claims, ADocumentThatIsNamedIsNotReadFromASentence) {
  const std::string dated = changed(kSource, "document = \"a document, 2026\"\n");
  EXPECT_EQ(checked_claim(dated, "a document").source, "a document, 2026");
  EXPECT_TRUE(checked_claim(dated, "a document").source_errors.empty());
  EXPECT_THAT(checked_claim(dated, "a document, 2026").source_errors,
              ElementsAre(HasSubstr("0.5, not 4")));
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
                           "[0.0, 0.0]",
                           "0.1",
                           "[\"10 %\", \"15 %\"]"}) {
    const std::string message = problem(changed("[0.6, 0.6]", gain));
    EXPECT_THAT(message, test::names("c.toml:10:", "'a' gain")) << gain;
    EXPECT_THAT(message, Not(HasSubstr("direction"))) << gain;
  }
  EXPECT_THAT(problem(changed("[0.6, 0.6]", "[nan, 0.1]")), HasSubstr("[nan, 0.1]"));
  for (const char* gain : {"[0.5, 0.99]", "[0.5, inf]", "[0.0, inf]", "[-0.1, 0.1]", "[-0.1, 0.0]"})
    EXPECT_EQ(problem(changed("[0.6, 0.6]", gain)), "") << gain;
  std::string faster = changed("peak_memory", "throughput");
  faster.replace(faster.find("\"less\""), 6, "\"more\"");
  faster.replace(faster.find("[0.6, 0.6]"), 10, "[1.5, 2.0]");
  EXPECT_EQ(problem(faster), "") << "three times the throughput is a gain of 2";
}

TEST(Claims, ConditionsThatNoRunCanMeetAreRefused) {
  EXPECT_THAT(problem(kClaim + "requires = { threads = [] }\n"),
              test::names("c.toml:12:", "requires: key 'threads'"));
  EXPECT_THAT(problem(kClaim + "requires = { ema_swap = \"exchange\" }\n"),
              HasSubstr("'ema_swap' switches 'ema_swap'"));
}

TEST(Claims, Mistakes) {
  EXPECT_EQ(problem(kClaim), "");
  EXPECT_THAT(problem(kClaim + "sauce = 1\n"),
              test::names("c.toml:12:", "key 'sauce'", "'source'?"));
  EXPECT_THAT(problem(kClaim + "operators = 1\n"),
              test::names("key 'operators'", "known keys are: conditions, direction, document"));
  EXPECT_THAT(problem(changed("\"exchange\"", "\"exchang\"")),
              test::names("c.toml:5:", "level 'exchang'", "'exchange'?"));
  EXPECT_THAT(problem(changed("ema_swap", "ema_swop")),
              test::names("c.toml:3:", "optimization 'ema_swop'"));
  EXPECT_THAT(problem(changed("[0.6, 0.6]", "[0.6, 0.5]")), test::names("c.toml:10:", "'a' gain"));
  EXPECT_THAT(problem(changed("\"less\"", "\"more\"")), test::names("direction", "\"less\""));
  EXPECT_THAT(problem(changed("peak_memory", "peak_memry")),
              test::names("metric 'peak_memry'", "'peak_memory'?"));
  EXPECT_THAT(problem(kClaim + "requires = { gpu = [\"PCI\", 4] }\n"),
              test::names("c.toml:12:", "requires: gpu"));
  EXPECT_THAT(problem(kClaim + "requires = { device = \"tpu\" }\n"),
              test::names("c.toml:12:", "requires: key 'device'"));
  EXPECT_THAT(
      problem(kClaim + "stages = [\"foward\"]\n"),
      test::names(
          "c.toml:12:", "stage 'foward'", "'forward'?", "data_wait, host_to_device, forward"));
  EXPECT_THAT(problem(kClaim + "stages = \"forward\"\n"), test::names("c.toml:12:", "'a' stages"));
  EXPECT_THAT(problem(kClaim + "stages = []\n"), test::names("c.toml:12:", "'a' stages"));
  EXPECT_THAT(problem(changed("source = \"a document, section 1\"\n", "")),
              test::names("lacks", "'document'", "'section'"));
  EXPECT_THAT(problem(changed(kSource, "section = \"section 1\"\n")),
              test::names("lacks", "'document'"));
  EXPECT_THAT(problem(kClaim + "document = \"a document\"\n"),
              test::names("c.toml:7", "`document`", "`section`", "`source`"));
  EXPECT_THAT(problem(kClaim + kClaim),
              test::names("c.toml:13: claim id 'a' is used twice, first at ", "c.toml:2"));
  const std::string check = "[[check]]\ndocument = \"a\"\nsection = \"1\"\ntext = \"t\"\n";
  EXPECT_THAT(problem(check + "kind = \"rato\"\n"),
              test::names("c.toml:5:", "kind 'rato'", "'ratio'?", "kinds are: mfu"));
  EXPECT_THAT(problem(check + "kind = \"ratio\"\nvalue = 1\nof = 0\nstated = [1]\n"),
              AllOf(HasSubstr("c.toml:7: [[check]] of"), HasSubstr("c.toml:8: [[check]] stated")));
  EXPECT_THAT(problem(check + "kind = \"ratio\"\nvalue = 1\nof = 2\n"),
              test::names("[[check]] lacks", "'stated'"));
  EXPECT_THAT(problem(check + "kind = \"scaling\"\ndevice_counts = [1, 2]\nlowest = [0.9]\n"
                              "highest = [1.0, 1.0]\n"),
              test::names("[[check]] lists", "one length"));
  EXPECT_THAT(load_claims("/nowhere").error().message,
              test::names("/nowhere: ", "claims directory"));
}

// Lines: id 2, from 3, to 4, … conditions 10.
std::string key_claim(const std::string& from, const std::string& to) {
  std::string text = kClaim;
  text.erase(text.find("optimization"), text.find("from =") - text.find("optimization"));
  text.replace(text.find("\"clone_copy\""), 12, from);
  text.replace(text.find("\"exchange\""), 10, to);
  return text;
}

TEST(KeyClaims, StoreTheValuesThatAPlanStores) {
  const test::Scratch scratch;
  const std::string text = key_claim("{ set = { precision = \"bf16\", lr = 1 } }",
                                     "{ set = { lr = 0.5, precision = \"fp8\" } }");
  const auto claims = value_or_throw(load_claim_files({scratch.write("c.toml", text)}));
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].optimization, "");
  EXPECT_EQ(claims[0].from, R"({"lr":1.0,"precision":"bf16"})");
  EXPECT_EQ(claims[0].to, R"({"lr":0.5,"precision":"fp8"})");
  EXPECT_TRUE(names_keys(claims[0]));
  EXPECT_EQ(claim_sides_text(claims[0]), "lr = 1.0, precision = bf16 -> lr = 0.5, precision = fp8");
}

TEST(KeyClaims, MistakesNameTheirLine) {
  const std::string bf16 = "{ set = { precision = \"bf16\" } }",
                    fp8 = "{ set = { precision = \"fp8\" } }";
  EXPECT_EQ(problem(key_claim(bf16, fp8)), "");
  EXPECT_THAT(problem(key_claim(bf16, "\"fp8\"")), test::names("c.toml:4:", "two sets of keys"));
  EXPECT_THAT(problem(key_claim("\"bf16\"", fp8)), test::names("c.toml:3:", "two sets of keys"));
  EXPECT_THAT(problem(key_claim(bf16, fp8) + "optimization = \"fp8\"\n"),
              test::names("c.toml:11:", "`optimization`"));
  EXPECT_THAT(problem(key_claim(bf16, "{ set = { precison = \"fp8\" } }")),
              test::names("c.toml:4:", "'a' to", "'precision'?"));
  EXPECT_THAT(problem(key_claim(bf16, "{ set = { precision = \"fp4\" } }")),
              test::names("c.toml:4:", "fp4"));
  EXPECT_THAT(problem(key_claim("{ }", fp8)), test::names("c.toml:3:", "'a' from", "'set'"));
  EXPECT_THAT(problem(key_claim("{ set = { } }", "{ set = { } }")),
              test::names("c.toml:3:", "no key"));
  EXPECT_THAT(problem(key_claim(bf16, "{ set = { precision = \"fp8\", lr = 0.1 } }")),
              test::names("c.toml:4:", "'lr'", "`to` alone"));
  EXPECT_THAT(problem(key_claim("{ set = { precision = \"bf16\", lr = 0.1 } }", fp8)),
              test::names("c.toml:4:", "'lr'", "`from` alone"));
  EXPECT_THAT(problem(key_claim(bf16, bf16)), test::names("'precision'", "one value", "requires"));
  EXPECT_THAT(problem(key_claim(bf16, fp8 + "\nrequires = { precision = \"bf16\" }")),
              test::names("c.toml:5:", "requires", "'precision'"));
  const std::string rows = key_claim("{ set = { seed = 1 } }", "{ set = { seed = 2 } }");
  EXPECT_THAT(problem(rows), test::names("c.toml:3:", "'seed'", "`unmet`"));
  EXPECT_EQ(problem(rows + "unmet = \"another number of tokens\"\n"), "");
}

} // namespace claims_test
} // namespace assay
