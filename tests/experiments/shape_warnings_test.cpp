#include "experiments/analysis/shape_warnings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "experiments/plan/claims/document_checks.h"
#include "model/config/shapes/nsa_shape.h"
#include "model/config/train_config.h"
#include "tests/names.h"

namespace assay {
namespace shape_warnings_test {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

json preset(const std::string& name) {
  TrainConfig config;
  config.preset = name;
  return to_json(value_or_throw(resolve(config)));
}

// The published shape of 125 M: blocks of 32 every 16, 16 selected of 64, window 512.
json nsa_config(std::int64_t length) {
  return {{"family", "nsa"},
          {"pattern", "N"},
          {"head_dim", 64},
          {"vocab_size", 256},
          {"seq_len", length},
          {"nsa_block", 32},
          {"nsa_stride", 16},
          {"nsa_select_block", 64},
          {"nsa_select_count", 16},
          {"nsa_window", 512},
          {"nsa_attention", "nsa"}};
}

TEST(ShapeWarnings, ThePresetsAreClean) {
  for (const std::string& name : preset_names("deltanet_mla"))
    EXPECT_THAT(shape_warnings(preset(name)), IsEmpty()) << name;
}

// The published length is below the crossover, and a warning states it.
TEST(ShapeWarnings, TheSparsePresetsLieBelowTheirCrossover) {
  for (const std::string& name : preset_names("nsa")) {
    TrainConfig config;
    config.family = "nsa";
    config.preset = name;
    EXPECT_THAT(shape_warnings(to_json(value_or_throw(resolve(config)))),
                ElementsAre(HasSubstr("sparse attention")))
        << name;
    config.nsa_attention = NsaAttention::Dense;
    EXPECT_THAT(shape_warnings(to_json(value_or_throw(resolve(config)))), IsEmpty()) << name;
  }
}

TEST(ShapeWarnings, HeadWidths) {
  json config = preset("base");
  config["head_dim"] = 85; // 1024 / 12 of a published model; 85 + 32 = 117
  EXPECT_THAT(shape_warnings(config),
              ElementsAre(test::names(
                  "head_dim 85", "rope_dim 32", "= 117", "multiple of 8:", "; 120 is")));
  config["head_dim"] = 256;
  EXPECT_THAT(shape_warnings(config), ElementsAre(test::names("= 288:", "most 256")));
  config["head_dim"] = 224; // 224 + 32 = 256: the widest
  EXPECT_THAT(shape_warnings(config), IsEmpty());
  config["head_dim"] = 85;
  config["pattern"] = "GG"; // no attention layer, no attention kernel
  EXPECT_THAT(shape_warnings(config), IsEmpty());
  json sparse = nsa_config(8192);
  sparse["head_dim"] = 60;
  EXPECT_THAT(shape_warnings(sparse), ElementsAre(test::names("head_dim 60", "multiple of 8")));
}

TEST(ShapeWarnings, Vocabularies) {
  json config = preset("base");
  config["vocab_size"] = 50257; // GPT-2's
  EXPECT_THAT(shape_warnings(config),
              ElementsAre(test::names("vocab_size 50257", "multiple of 8:")));
  EXPECT_THAT(shape_warnings(config), ElementsAre(HasSubstr("; 50304 is")));
  config["vocab_size"] = 50264;
  EXPECT_THAT(shape_warnings(config),
              ElementsAre(test::names("vocab_size 50264", "multiple of 64:")));
  config["vocab_size"] = 50304;
  EXPECT_THAT(shape_warnings(config), IsEmpty());
}

// Mean keys a query. Window, S 2048: (512 x 513 / 2 + 1536 x 512) / 2048 = 448.125. Compressed:
// block i is seen by 2048 - (16 i + 31) queries, i = 0 … 126: (127 x 2017 - 16 x 126 x 127 / 2) /
// 2048 = 62.5698. Selected, first 1024 queries all earlier keys, 1024 x 1025 / 2; then 15 whole
// blocks and t mod 64 + 1 of the own, 960 + 32.5: (524800 + 1024 x 992.5) / 2048 = 752.5.
TEST(ShapeWarnings, NsaKeysByHand) {
  const NsaShape shape{32, 16, 64, 16, 512};
  const NsaKeys keys = nsa_keys(shape, 2048);
  EXPECT_DOUBLE_EQ(keys.window, 448.125);
  EXPECT_DOUBLE_EQ(keys.compressed, (127 * 2017 - 16 * 126 * 127 / 2) / 2048.0);
  EXPECT_DOUBLE_EQ(keys.selected, 752.5);
  const auto crossover = nsa_crossover(shape);
  ASSERT_TRUE(crossover);
  EXPECT_GE(nsa_keys(shape, *crossover - 1).total(), static_cast<double>(*crossover) / 2);
  EXPECT_LT(nsa_keys(shape, *crossover).total(), static_cast<double>(*crossover + 1) / 2);
  EXPECT_FALSE(nsa_crossover(shape, 1024));
}

TEST(ShapeWarnings, SparseAttentionBelowItsCrossover) {
  const std::int64_t crossover = *nsa_crossover({32, 16, 64, 16, 512});
  EXPECT_THAT(shape_warnings(nsa_config(2048)),
              ElementsAre(AllOf(HasSubstr("seq_len 2048"),
                                HasSubstr("1263"),
                                HasSubstr("1024"),
                                HasSubstr("from seq_len " + std::to_string(crossover)))));
  EXPECT_THAT(shape_warnings(nsa_config(crossover - 1)), testing::SizeIs(1));
  EXPECT_THAT(shape_warnings(nsa_config(crossover)), IsEmpty());
  json dense = nsa_config(512);
  dense["nsa_attention"] = "dense"; // the twin
  EXPECT_THAT(shape_warnings(dense), IsEmpty());
}

TEST(ShapeWarnings, UnknownShapesAreSilent) {
  EXPECT_THAT(shape_warnings(json::object()), IsEmpty());
  EXPECT_THAT(shape_warnings(json()), IsEmpty());
  json lacking = nsa_config(512);
  lacking.erase("nsa_window");
  EXPECT_THAT(shape_warnings(lacking), IsEmpty());
  lacking["head_dim"] = "wide";
  EXPECT_THAT(shape_warnings(lacking), IsEmpty());
}

TEST(ShapeWarnings, OneSentenceForAllCellsThatShareIt) {
  LedgerData plan;
  for (const std::int64_t id : {1, 2, 3}) {
    CellRow cell;
    cell.id = id;
    cell.name = "c" + std::to_string(id);
    plan.cells.push_back(cell);
    json config = preset("tiny");
    config["vocab_size"] = id == 2 ? 256 : 257;
    for (const char* name : {"a", "b"})
      plan.variants.push_back(
          {2 * id + (*name == 'b'), id, name, name, Role::Level, config.dump()});
  }
  ClaimRow claim;
  claim.source_errors = {"one", "two"};
  plan.claims = {claim, claim};
  EXPECT_THAT(shape_warnings(plan), ElementsAre(test::names("cells c1, c3:", "vocab_size 257")));
  EXPECT_THAT(source_errors(plan), ElementsAre("one", "two"));
}

std::optional<std::string> finding(const std::string& kind,
                                   std::map<std::string, std::vector<double>> figures) {
  return arithmetic_error({"doc", "section 1", "quoted", kind, {}, {}, std::move(figures)});
}

TEST(DocumentChecks, EachKindSpeaksOnlyWhenItsFiguresDisagree) {
  const auto says = [](const char* text) { return testing::Optional(HasSubstr(text)); };
  const std::optional<std::string> silent;
  // A well-tuned training: 6 x 124e6 x 178e3 = 132 TFLOP/s of 312.
  EXPECT_EQ(finding("mfu",
                    {{"tokens_per_second", {178e3}},
                     {"parameters", {124e6}},
                     {"devices", {1}},
                     {"peak_flops", {312e12}}}),
            silent);
  EXPECT_THAT(finding("mfu",
                      {{"tokens_per_second", {39}},
                       {"parameters", {125e6}},
                       {"devices", {2}},
                       {"peak_flops", {312e12}}}),
              says("doc, section 1: \"quoted\": 6 x 125 M parameters x 39 tokens/s = 29.2 GFLOP/s, "
                   "0.0047 % of the peak of 624 TFLOP/s"));
  EXPECT_THAT(finding("mfu",
                      {{"tokens_per_second", {1e6}},
                       {"parameters", {125e6}},
                       {"devices", {1}},
                       {"peak_flops", {312e12}}}),
              says("more than the hardware can do"));
  // 4,028 tokens a step at 53 ms: a step of 4 x 1024.
  EXPECT_EQ(finding("product", {{"factors", {76e3, 0.053}}, {"stated", {4096}}}), silent);
  EXPECT_THAT(finding("product", {{"factors", {4, 10, 3}}, {"stated", {4564}}}),
              says("4 x 10 x 3 = 120, not 4564: a factor of 38 is unexplained"));
  EXPECT_EQ(finding("ratio", {{"value", {8}}, {"of", {3.35}}, {"stated", {2.4}}}), silent);
  EXPECT_THAT(finding("ratio", {{"value", {8e12}}, {"of", {3.35e12}}, {"stated", {3.3}}}),
              says("8 T / 3.35 T = 2.39, not 3.3"));
  const std::vector<double> devices{8, 16};
  EXPECT_EQ(finding("scaling",
                    {{"device_counts", devices}, {"lowest", {.90, .85}}, {"highest", {.95, .92}}}),
            silent);
  EXPECT_THAT(
      finding("scaling",
              {{"device_counts", devices}, {"lowest", {.90, .95}}, {"highest", {.95, .98}}}),
      says("efficiency does not rise"));
  EXPECT_EQ(finding("duration",
                    {{"steps", {1000}},
                     {"tokens_per_step", {3600}},
                     {"tokens_per_second", {1000}},
                     {"hours", {1.05}}}),
            silent);
  EXPECT_THAT(finding("duration",
                      {{"steps", {1000}},
                       {"tokens_per_step", {3600}},
                       {"tokens_per_second", {1000}},
                       {"hours", {2}}}),
              says("3.6 M tokens at 1 K tokens/s take 1 h, not 2 h"));
  EXPECT_EQ(finding("untrained_loss", {{"loss", {4.0}}, {"vocabulary", {50304}}}), silent);
  EXPECT_THAT(finding("untrained_loss", {{"loss", {11.0}}, {"vocabulary", {50304}}}),
              says("10.83"));
  EXPECT_EQ(
      finding("copies",
              {{"parameters", {1e9}}, {"bytes", {4}}, {"copies", {2}}, {"stated_bytes", {8e9}}}),
      silent);
  EXPECT_THAT(
      finding("copies",
              {{"parameters", {1e9}}, {"bytes", {4}}, {"copies", {2}}, {"stated_bytes", {5e9}}}),
      says("are 8 GB, not 5 GB"));
}

TEST(DocumentChecks, SumsAndPerplexities) {
  const auto says = [](const char* text) { return testing::Optional(HasSubstr(text)); };
  const std::optional<std::string> silent;
  EXPECT_EQ(finding("sum", {{"terms", {4e9, 4e9, 4e9}}, {"stated", {12e9}}}), silent);
  EXPECT_THAT(finding("sum", {{"terms", {5.16e9, 1.2e9}}, {"stated", {5.4e9}}}),
              says("5.16 G + 1.2 G = 6.36 G, not 5.4 G"));
  EXPECT_THAT(finding("sum", {{"terms", {4e9}}, {"stated", {8e9}}}), says("it is 4 G, not 8 G"));
  EXPECT_EQ(finding("perplexity", {{"loss", {1.37}}, {"perplexity", {3.94}}}), silent);
  EXPECT_THAT(finding("perplexity", {{"loss", {1.37}}, {"perplexity", {3.0}}}),
              says("e^1.37 = 3.94, not 3"));
}

// Ranges and bounds are exact: one part in a thousand beyond an end is reported.
TEST(DocumentChecks, RangesThatDoNotMeet) {
  const auto says = [](const char* text) { return testing::Optional(HasSubstr(text)); };
  const std::optional<std::string> silent;
  const auto eight = [](double stated) {
    return finding("superlinear", {{"single", {55e3}}, {"devices", {8}}, {"stated", {stated}}});
  };
  EXPECT_EQ(eight(440e3), silent);
  EXPECT_THAT(eight(440.5e3), says("8 devices of 55 K are 440 K together"));
  const auto twice = [](double lowest) {
    return finding("same_figure", {{"first", {.25, .35}}, {"second", {lowest, .50}}});
  };
  EXPECT_EQ(twice(.35), silent);
  EXPECT_THAT(twice(.351), says("as 0.25 to 0.35 and as 0.351 to 0.5"));
  const auto ratio = [](double highest) {
    return finding("change",
                   {{"before", {45e9, 45e9}}, {"after", {36e9, 40e9}}, {"ratios", {.70, highest}}});
  };
  EXPECT_EQ(ratio(.80), silent); // 36 / 45
  EXPECT_THAT(ratio(.799), says("x0.8 to 0.8889, not x0.7 to 0.799"));
  const auto product = [](double stated) {
    return finding("compound",
                   {{"lowest", {1.5, 1.5, 2}}, {"highest", {2, 2, 2}}, {"stated", {stated}}});
  };
  EXPECT_EQ(product(4.5), silent);
  EXPECT_EQ(product(8), silent);
  EXPECT_THAT(product(4.49),
              says("factors of 1.5 to 2, 1.5 to 2, 2 multiply to 4.5 to 8, not 4.49"));
  EXPECT_THAT(product(8.01), says("not 8.01"));
}

} // namespace shape_warnings_test
} // namespace assay
