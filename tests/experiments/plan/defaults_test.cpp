// Keys that nobody set: fast on a GPU, where every variant of the cell can have it.
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/config/fast_defaults.h"
#include "tests/experiments/support.h"
#include "tests/names.h"

namespace assay {
namespace defaults_test {

using nlohmann::json;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

const json kFast = {{"delta_form", "fused"},
                    {"delta_inputs", "fused"},
                    {"mla_inputs", "fused"},
                    {"mla_attention", "cudnn"},
                    {"loss_chunk_mib", 256},
                    {"norms", "fused"},
                    {"ffn_gate", "fused"},
                    {"residual", "bf16"},
                    {"weights16", "kept"},
                    {"update_pass", "one_pass"}};

// Of one cell on a GPU in bf16, unless `cell` says something else.
class DefaultsTest : public testing::Test {
protected:
  Plan plan(const std::string& cell, const std::string& base = "", int capability = 0) const {
    const std::string data = "base.data=\"" + scratch_.write("corpus.txt", "some text") + "\"";
    const std::string text =
        "version = 1\n[experiment]\nname = \"t\"\n[base]\ndevice = \"cuda\"\npreset = \"small\"\n" +
        (base.empty() ? "precision = \"bf16\"\n" : base) + "[[cell]]\n" + cell;
    PlanOptions options;
    options.device_capability = capability;
    return value_or_throw(make_plan(value_or_throw(parse_matrix(text, "m.toml", {data})), options));
  }
  // Keys of a variant that have another value than the fast trainer's.
  static std::vector<std::string> slow_keys(const Plan& plan, std::size_t variant = 0) {
    const json config = json::parse(plan.ledger.variants.at(variant).config_json);
    std::vector<std::string> keys;
    for (const auto& [key, value] : kFast.items())
      if (config.at(key) != value) keys.push_back(key);
    return keys;
  }
  std::vector<std::string> slow_keys(const std::string& cell, const std::string& base = "") const {
    return slow_keys(plan(cell, base));
  }
  std::string problem(const std::string& cell) const {
    return test::failure_of([&] { (void)plan(cell); });
  }
  static std::string note(const Plan& plan) {
    std::vector<std::string> notes = note_texts(plan);
    std::erase_if(notes,
                  [](const std::string& note) { return note.find("stays at") == note.npos; });
    return fmt::format("{}", fmt::join(notes, "\n"));
  }

  test::Scratch scratch_;
};

const std::string kScaler = "optimization = \"grad_scaler\"\n";

TEST_F(DefaultsTest, AreTheFastLevelsOnAGpuAndTheReferencesOnACpu) {
  const Plan made = plan(kScaler);
  for (std::size_t variant = 0; variant < 3; ++variant)
    EXPECT_THAT(slow_keys(made, variant), IsEmpty()) << variant;
  EXPECT_EQ(note(made), "");
  const json config = json::parse(made.ledger.cells[0].config_json);
  EXPECT_EQ(config["step_graph"], "off"); // undecided or another precision: never by default
  EXPECT_EQ(config["epilogue"], "none");
  EXPECT_EQ(config["precision"], "bf16");
  const Plan cpu = plan(kScaler + "set = { device = \"cpu\" }\n");
  EXPECT_EQ(slow_keys(cpu).size(), kFast.size());
  EXPECT_EQ(note(cpu), "");
}

// Stored configurations are resolved by resolve() alone: a key that an old ledger lacks is slow.
TEST_F(DefaultsTest, AreNoPartOfAStoredConfiguration) {
  const TrainConfig stored =
      value_or_throw(resolve_json({{"device", "cuda"}, {"precision", "bf16"}}));
  const json config = to_json(stored), initial = to_json(TrainConfig());
  for (const auto& [key, value] : kFast.items()) EXPECT_EQ(config[key], initial[key]) << key;
}

TEST_F(DefaultsTest, WhatSomebodySetWins) {
  EXPECT_THAT(slow_keys(kScaler + "set = { ffn_gate = \"ops\", update_pass = \"foreach\" }\n"),
              UnorderedElementsAre("ffn_gate", "update_pass"));
  EXPECT_THAT(slow_keys(kScaler, "precision = \"bf16\"\nloss_chunk_mib = 64\n"),
              ElementsAre("loss_chunk_mib"));
  // A fast level that cannot be had is an error, at its line.
  EXPECT_THAT(
      problem(kScaler + "set = { norms = \"ops\", residual = \"bf16\" }\n"),
      test::names("m.toml:10: cell 'grad_scaler'", "'residual' = bf16 needs norms = fused"));
  EXPECT_THAT(problem(kScaler + "set = { precision = \"fp32\", weights16 = \"kept\" }\n"),
              test::names("m.toml:10: cell 'grad_scaler'", "'weights16' = kept"));
}

// residual needs norms, so it follows what somebody set.
TEST_F(DefaultsTest, ANeedOfAnotherKeyIsFollowed) {
  const Plan made = plan(kScaler + "set = { norms = \"ops\" }\n");
  EXPECT_THAT(slow_keys(made), UnorderedElementsAre("norms", "residual"));
  EXPECT_EQ(note(made),
            "cell 'grad_scaler': residual stays at fp32: it needs norms = fused and precision = "
            "bf16 or fp8");
  // What somebody set may need a default: nothing has to be listed for it.
  EXPECT_THAT(slow_keys(kScaler + "set = { step_graph = \"on\" }\n"), IsEmpty());
}

// The fused kernel reads keys and values from one product: with it, split would train joined.
TEST_F(DefaultsTest, AFusedKernelDoesNotReplaceWhatSomebodySet) {
  const Plan made = plan(kScaler + "set = { projections = \"split\" }\n");
  EXPECT_THAT(slow_keys(made), ElementsAre("mla_inputs"));
  EXPECT_EQ(note(made),
            "cell 'grad_scaler': mla_inputs stays at ops: fused needs projections = joined");
  EXPECT_THAT(problem(kScaler + "set = { projections = \"split\", mla_inputs = \"fused\" }\n"),
              test::names("m.toml:10: cell 'grad_scaler'",
                          "'mla_inputs' = fused needs projections = joined"));
  EXPECT_THAT(slow_keys("optimization = \"projections\"\n"), ElementsAre("mla_inputs"));
}

TEST_F(DefaultsTest, PrecisionsWithoutTheKernelsFallBack) {
  const auto in = [&](const std::string& precision) {
    return plan(kScaler, "precision = \"" + precision + "\"\n");
  };
  const Plan fp32 = in("fp32");
  EXPECT_THAT(
      slow_keys(fp32),
      UnorderedElementsAre(
          "delta_form", "delta_inputs", "mla_inputs", "mla_attention", "residual", "weights16"));
  EXPECT_THAT(note(fp32),
              test::names("delta_form stays at chunked: it needs bf16",
                          "mla_attention stays at flash_padded: cudnn needs bf16",
                          "weights16 stays at cast: it needs precision bf16"));
  EXPECT_EQ(std::ranges::count(note(fp32), '\n'), 5) << "one note for each key";
  EXPECT_THAT(slow_keys(in("fp16")),
              UnorderedElementsAre("delta_form", "delta_inputs", "mla_inputs", "residual"));
  EXPECT_THAT(slow_keys(in("fp8")), IsEmpty());
  EXPECT_THAT(slow_keys("optimization = \"fp8\"\n"), IsEmpty());
}

TEST_F(DefaultsTest, ShapesWithoutTheKernelsFallBack) {
  const auto with = [&](const std::string& set) {
    return plan(kScaler + "set = { " + set + " }\n");
  };
  EXPECT_THAT(slow_keys(with("conv_kernel = 3")), ElementsAre("delta_inputs"));
  EXPECT_THAT(slow_keys(with("chunk_size = 32")), ElementsAre("delta_form"));
  EXPECT_THAT(slow_keys(with("kv_rank = 20")), ElementsAre("mla_inputs"));
  EXPECT_THAT(slow_keys(with("head_dim = 128")), ElementsAre("mla_attention"));
  EXPECT_THAT(slow_keys(with("attention = \"mask_dense\"")), ElementsAre("mla_attention"));
  EXPECT_THAT(slow_keys(with("ranks = 2")), IsEmpty());
}

// A model has no note about layers that it lacks.
TEST_F(DefaultsTest, OtherFamiliesTakeWhatTheyHave) {
  const auto of = [&](const std::string& family) {
    return plan(kScaler, "precision = \"bf16\"\nfamily = \"" + family + "\"\n");
  };
  EXPECT_THAT(slow_keys(of("gpt")),
              UnorderedElementsAre("delta_form", "delta_inputs", "mla_inputs"));
  EXPECT_THAT(slow_keys(of("nsa")),
              UnorderedElementsAre(
                  "delta_form", "delta_inputs", "ffn_gate", "mla_attention", "mla_inputs"));
  EXPECT_EQ(note(of("gpt")), "");
  EXPECT_EQ(note(of("nsa")), "");
  EXPECT_THAT(slow_keys(kScaler + "set = { pattern = \"MM\" }\n"),
              UnorderedElementsAre("delta_form", "delta_inputs"));
}

// All variants of a cell share what is not under test.
TEST_F(DefaultsTest, TheRowUnderTestComesFirst) {
  const Plan guard = plan("optimization = \"bf16_guard\"\nset = { bf16_delta_inputs = true }\n");
  for (std::size_t variant = 0; variant < 3; ++variant)
    EXPECT_THAT(slow_keys(guard, variant), ElementsAre("delta_inputs")) << variant;
  EXPECT_EQ(note(guard),
            "cell 'bf16_guard': delta_inputs stays at ops: bf16_guard needs delta_inputs = ops");
  const Plan varlen = plan("optimization = \"varlen\"\n");
  for (std::size_t variant = 0; variant < 4; ++variant)
    EXPECT_THAT(slow_keys(varlen, variant), ElementsAre("mla_attention")) << variant;
  EXPECT_EQ(note(varlen),
            "cell 'varlen': mla_attention stays at flash_padded: it needs attention = packed or "
            "varlen");
  const Plan norms = plan("optimization = \"norms\"\n");
  EXPECT_THAT(slow_keys(norms, 0), UnorderedElementsAre("norms", "residual"));
  EXPECT_THAT(slow_keys(norms, 1), ElementsAre("residual"));
  const Plan stages = plan("optimization = \"planted_stages\"\n");
  EXPECT_THAT(slow_keys(stages), ElementsAre("update_pass"));
}

// A default whose removal only hides the mistake is not to blame.
TEST_F(DefaultsTest, AMistakeOfSetKeysIsNamedAsSuch) {
  const std::string gpt = "set = { family = \"gpt\", weights16 = \"cast\", ";
  EXPECT_THAT(problem("optimization = \"epilogue\"\n" + gpt + "precision = \"bf16\" }\n"),
              test::names("needs weights16 = kept"));
  EXPECT_THAT(problem(kScaler + gpt + "epilogue = \"all\" }\n"),
              test::names("'epilogue' = all needs weights16 = kept"));
  EXPECT_THAT(problem(kScaler + "set = { step_graph = \"on\", ranks = 2 }\n"),
              test::names("'step_graph' = on needs ranks = 1"));
}

TEST_F(DefaultsTest, AKeyThatAVariantMakesFastIsSlowInTheOthers) {
  const std::string ends = "name = \"c\"\n[cell.variants]\n";
  const Plan made = plan(ends + "old = { }\nnew = { set = { norms = \"fused\" } }\n");
  EXPECT_THAT(slow_keys(made, 0), UnorderedElementsAre("norms", "residual"));
  EXPECT_THAT(slow_keys(made, 1), ElementsAre("residual"));
  // A variant that names a slow level leaves the others their default.
  const Plan slow = plan(ends + "old = { set = { ffn_gate = \"ops\" } }\nnew = { }\n");
  EXPECT_THAT(slow_keys(slow, 0), ElementsAre("ffn_gate"));
  EXPECT_THAT(slow_keys(slow, 1), IsEmpty());
  const Plan precision = plan(ends + "half = { }\nfull = { set = { precision = \"fp32\" } }\n");
  EXPECT_THAT(slow_keys(precision, 0).size(), 6u);
  EXPECT_EQ(slow_keys(precision, 0), slow_keys(precision, 1));
  const Plan ladder = plan("name = \"l\"\ndesign = \"ladder\"\n[cell.steps]\n"
                           "a = { set = { norms = \"fused\" } }\n"
                           "b = { set = { attention = \"mask_dense\" } }\n");
  EXPECT_THAT(slow_keys(ladder), UnorderedElementsAre("mla_attention", "norms", "residual"));
}

TEST_F(DefaultsTest, FollowTheBoardWhereItIsKnown) {
  EXPECT_THAT(slow_keys(plan(kScaler, "", 90)), IsEmpty());
  const Plan older = plan(kScaler, "", 80);
  EXPECT_THAT(slow_keys(older), ElementsAre("mla_attention"));
  EXPECT_EQ(note(older),
            "cell 'grad_scaler': mla_attention stays at flash_padded: cudnn needs a GPU of compute "
            "capability 9.0, this one has 8.0");
}

TEST_F(DefaultsTest, AKeyOfAnotherFamilyIsFastInThatFamilyAlone) {
  const auto inputs = [&](const std::string& keys) {
    const Plan made = plan(kScaler, "precision = \"bf16\"\n" + keys);
    EXPECT_EQ(note(made), "") << keys;
    return json::parse(made.ledger.variants.at(0).config_json).at("nsa_inputs");
  };
  EXPECT_EQ(inputs("family = \"nsa\"\n"), "fused");
  EXPECT_EQ(inputs(""), "ops");
  const Plan form =
      plan("optimization = \"nsa_form\"\n", "precision = \"bf16\"\nfamily = \"nsa\"\n");
  EXPECT_THAT(note(form), testing::HasSubstr("nsa_inputs stays at ops"));
}

// Results that were planned with slow defaults are not continued with fast ones.
TEST_F(DefaultsTest, ResultsOfOtherDefaultsAreRefusedByKey) {
  const Plan before = plan(kScaler + "set = { norms = \"ops\", residual = \"fp32\" }\n");
  const std::string directory = scratch_ / "results";
  (void)Ledger::open(directory, before.ledger);
  EXPECT_THAT(
      test::failure_of([&] { (void)Ledger::open(directory, plan(kScaler).ledger); }),
      test::names("norms: \"ops\" in the results, \"fused\" now", "residual: \"fp32\" in the"));
}

TEST(FastDefaults, EveryRowThatHasOneSwitchesOneKey) {
  std::vector<std::string> keys;
  for (const Optimization& row : optimizations().all())
    if (!row.fast_default.empty()) keys.push_back(fast_key(row));
  std::vector<std::string> expected;
  for (const auto& [key, value] : kFast.items()) expected.push_back(key);
  expected.insert(expected.end(), {"nsa_inputs", "scan_form"}); // of other families
  EXPECT_THAT(keys, testing::UnorderedElementsAreArray(expected));
}

} // namespace defaults_test
} // namespace assay
