// What a plan refuses, and the line that it names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/experiments/plan/plan_fixture.h"
#include "tests/names.h"

namespace assay {
namespace refusals_test {

using test::kHead;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using PlanRefusals = test::PlanTest;

// What would end the whole run at that cell's first launch.
TEST_F(PlanRefusals, ACellWithoutWhatItsOptimizationSwitchesIsRefused) {
  const std::string nsa = kHead + "[base]\nfamily = \"nsa\"\npreset = \"tiny\"\n[[cell]]\n"
                                  "name = \"n\"\noptimization = \"nsa_ranges\"\n";
  EXPECT_EQ(problem(nsa), "");
  EXPECT_THAT(
      problem(nsa + "set = { nsa_attention = \"dense\" }\n"),
      test::names("m.toml:9: cell 'n':", "'nsa_ranges' needs nsa_attention", "[base]", "`set`"));
  const std::string inputs = kHead + "[base]\nfamily = \"nsa\"\ndevice = \"cuda\"\n"
                                     "preset = \"tiny\"\n[[cell]]\nname = \"i\"\n"
                                     "optimization = \"nsa_inputs\"\n";
  EXPECT_EQ(problem(inputs + "set = { precision = \"bf16\" }\n"), "");
  EXPECT_THAT(problem(inputs + "set = { precision = \"bf16\", nsa_attention = \"dense\" }\n"),
              test::names("cell 'i':", "'nsa_inputs' needs nsa_attention"));
  for (const char* change : {"precision = \"fp16\"",
                             "precision = \"bf16\", head_dim = 128",
                             "precision = \"bf16\", nsa_gate_dim = 33"})
    EXPECT_THAT(
        problem(inputs + "set = { " + change + " }\n"),
        test::names("cell 'i':", "level 'fused' of optimization 'nsa_inputs' needs", "at most 32"))
        << change;
  const std::string form = kHead + "[base]\nfamily = \"nsa\"\npreset = \"tiny\"\n[[cell]]\n"
                                   "name = \"f\"\noptimization = \"nsa_form\"\n";
  EXPECT_EQ(problem(form), "");
  EXPECT_THAT(problem(form + "set = { nsa_attention = \"dense\" }\n"),
              test::names("cell 'f':", "'nsa_form' needs nsa_attention"));
  EXPECT_THAT(problem(form + "set = { nsa_ranges = \"v2a\" }\n"),
              test::names("nsa_ranges", "direct"));
  const std::string overlap = kHead + "[base]\nfamily = \"nsa\"\npreset = \"tiny\"\n[[cell]]\n"
                                      "name = \"o\"\noptimization = \"nsa_overlap\"\n";
  EXPECT_EQ(problem(overlap), "");
  EXPECT_THAT(problem(overlap + "set = { device = \"cuda\", precision = \"bf16\" }\n"),
              test::names("cell 'o':", "'nsa_overlap' needs", "precision = fp32"));
  const std::string gqa = kHead + "[base]\nfamily = \"nsa\"\npreset = \"tiny\"\n[[cell]]\n"
                                  "name = \"g\"\noptimization = \"gqa\"\n";
  EXPECT_EQ(problem(gqa + "set = { nsa_attention = \"dense\" }\n"), "");
  EXPECT_THAT(problem(gqa), test::names("cell 'g':", "'gqa' needs nsa_attention = dense"));
  for (const auto& [change, needed] :
       {std::pair{"kv_groups = 4", "kv_groups below heads"},
        {"attention = \"mask_dense\"", "attention = packed or varlen"},
        {"device = \"cuda\"", "precision other than fp32"}})
    EXPECT_THAT(problem(gqa + "set = { nsa_attention = \"dense\", " + change + " }\n"),
                test::names("cell 'g':", "'gqa'", "needs", needed));
  const std::string stats = kHead + "[base]\nfamily = \"nsa\"\npreset = \"tiny\"\n[[cell]]\n"
                                    "name = \"s\"\noptimization = \"nsa_stats\"\n";
  EXPECT_EQ(problem(stats), "");
  EXPECT_THAT(problem(stats + "set = { nsa_attention = \"dense\" }\n"),
              test::names("cell 's':", "'nsa_stats' needs nsa_attention"));
  const std::string ema = kHead + "[base]\npreset = \"tiny\"\n[[cell]]\nname = \"e\"\n"
                                  "optimization = \"ema_swap\"\n";
  EXPECT_EQ(problem(ema), "");
  EXPECT_THAT(problem(ema + "set = { ema_decay = 0.0 }\n"),
              test::names("cell 'e':", "'ema_swap' needs ema_decay"));
  const std::string mla = kHead + "[base]\ndevice = \"cuda\"\npreset = \"tiny\"\n[[cell]]\n"
                                  "name = \"m\"\noptimization = \"mla_inputs\"\n";
  EXPECT_EQ(problem(mla + "set = { precision = \"bf16\" }\n"), "");
  for (const char* change : {"precision = \"fp32\"",
                             "precision = \"bf16\", rope_dim = 24",
                             "precision = \"bf16\", kv_rank = 1032",
                             "precision = \"bf16\", head_dim = 36"})
    EXPECT_THAT(problem(mla + "set = { " + change + " }\n"),
                test::names("cell 'm':",
                            "level 'fused' of optimization 'mla_inputs' needs",
                            "most 1024",
                            "8 to 256"))
        << change;
  EXPECT_THAT(problem(mla + "set = { device = \"cpu\", kv_rank = 33 }\n"),
              test::names("level 'rotary_complex' of", "even head_dim", "even kv_rank"));
  EXPECT_THAT(problem(mla + "set = { precision = \"bf16\", pattern = \"GG\" }\n"),
              HasSubstr("M in pattern"));
}

// Rows whose span no configuration without the need ever opens: NOT_ENGAGED in every launch.
TEST_F(PlanRefusals, ACellThatCouldNeverBeEngagedIsRefused) {
  const auto cell = [](const std::string& row, const std::string& set) {
    return kHead + "[base]\npreset = \"tiny\"\n[[cell]]\noptimization = \"" + row + "\"\nset = { " +
           set + " }\n";
  };
  for (const char* precision : {"fp32", "bf16"}) {
    const std::string set = fmt::format("precision = \"{}\"", precision);
    EXPECT_THAT(problem(cell("bf16_guard", set)),
                test::names("'bf16_guard' needs bf16_delta_inputs = true"));
    EXPECT_EQ(problem(cell("bf16_guard", set + ", bf16_delta_inputs = true")), "");
  }
  EXPECT_THAT(problem(cell("bf16_guard", "bf16_delta_inputs = true, pattern = \"MM\"")),
              test::names("G in pattern"));
  for (const char* row : {"delta_inputs", "gdn_kernel"})
    EXPECT_THAT(problem(cell(row, "pattern = \"MM\"")), test::names("G in pattern")) << row;
  for (const char* row : {"varlen", "mla_attention"})
    EXPECT_THAT(problem(cell(row, "pattern = \"GG\"")), test::names("M in pattern")) << row;
  EXPECT_THAT(problem(cell("varlen", "family = \"nsa\"")), test::names("nsa_attention = dense"));
  EXPECT_THAT(problem(cell("mla_attention", "family = \"nsa\"")), test::names("or family gpt"));
  const std::string on_gpu = "device = \"cuda\", precision = \"bf16\"";
  EXPECT_EQ(problem(cell("mla_attention", "family = \"gpt\", " + on_gpu)), "");
  EXPECT_EQ(problem(cell("varlen", "family = \"nsa\", nsa_attention = \"dense\"")), "");
  const std::string gelu = "family = \"gpt\", ffn_gate = \"fused\", weights16 = \"kept\", ";
  EXPECT_EQ(problem(cell("epilogue", gelu + on_gpu)), "");
  EXPECT_THAT(problem(cell("epilogue", on_gpu)), test::names("'epilogue' needs", "family 'gpt'"));
  EXPECT_THAT(problem(cell("epilogue", "family = \"gpt\", ffn_gate = \"ops\", " + on_gpu)),
              test::names("needs ffn_gate = fused"));
  EXPECT_THAT(problem(cell("epilogue", gelu + "device = \"cuda\", precision = \"fp16\"")),
              test::names("needs precision = bf16"));
  EXPECT_THAT(problem(cell("epilogue", "family = \"gpt\", weights16 = \"cast\", " + on_gpu)),
              test::names("'epilogue' = all needs weights16 = kept"));
  EXPECT_THAT(problem(cell("ddp_accumulate", "ranks = 2")), test::names("accumulate = 2"));
  EXPECT_EQ(problem(cell("ddp_accumulate", "ranks = 2, accumulate = 2")), "");
}

TEST_F(PlanRefusals, EveryProblemAtOnce) {
  const std::string text = problem(kHead + R"(
[[cell]]
optimization = "ema_swop"
[[cell]]
optimization = "varlen"
levels = ["varlne"]
[[cell]]
optimization = "grad_scaler"
set = { seq_len = 64, rope_dim = 3, grad_scaler = "off" }
[[cell]]
optimization = "norms"
)",
                                   {},
                                   "/nowhere/corpus");
  EXPECT_THAT(
      text,
      test::names("m.toml:6: unknown optimization", "optimization 'ema_swop'", "'ema_swap'?"));
  EXPECT_THAT(text, test::names("m.toml:9: unknown level", "level 'varlne'", "'varlen'?"));
  EXPECT_THAT(text, test::names("key 'rope_dim'", "even"));
  EXPECT_THAT(text, test::names("'grad_scaler' is what", "optimization 'grad_scaler' switches"));
  EXPECT_THAT(text, HasSubstr("/nowhere/corpus: no such"));
}

// Of the levels that a cell compares, of its names, and of what does not depend on these.
TEST_F(PlanRefusals, EveryProblemOfACellAtOnce) {
  const std::string variants = kHead + "[[cell]]\nname = \"v\"\n[cell.variants]\nbase = {}\n"
                                       "odd = { set = { rope_dim = 3 } }\n"
                                       "huge = { set = { preset = \"huge\" } }\n";
  EXPECT_THAT(problem(variants, {}, "/nowhere"),
              test::names("m.toml:8: cell 'v': key 'rope_dim'",
                          "m.toml:9: cell 'v': unknown preset 'huge'",
                          "/nowhere: no such"));
  EXPECT_THAT(problem(kHead + "[[cell]]\noptimization = \"varlne\"\n", {}, "/nowhere"),
              test::names("m.toml:5: unknown opt", "/nowhere: no such"));
  EXPECT_THAT(problem(kHead + "[[cell]]\noptimization = \"varlen\"\nlevels = [\"vrln\"]\n"
                              "set = { rope_dim = 3 }\n"),
              AllOf(test::names("m.toml:6: unknown level 'vrln'", "m.toml:7: cell 'varlen': key"),
                    Not(HasSubstr("no level beside"))));
  EXPECT_THAT(problem(kHead + "[[cell]]\nname = \"varlen\"\nreference = \"c\"\n"
                              "[cell.variants]\na = {}\nb = { set = { lr = 0.1 } }\n"),
              test::names("m.toml:5: ", "has this name", "m.toml:6: ", "no variant is named 'c'"));
}

// The text of a matrix and the names in it are looked at together.
TEST_F(PlanRefusals, UnknownKeysAndNamesAtOnce) {
  const Result<Plan> plan = make_plan(
      MatrixText{kHead + "sead = 1\n[[cell]]\noptimization = \"varlne\"\n", "m.toml"}, {});
  ASSERT_FALSE(plan);
  EXPECT_THAT(plan.error().message, test::names("m.toml:4: ", "'sead'", "m.toml:6: ", "'varlne'"));
}

// The line of the key that is wrong, not of the cell that it is in.
TEST_F(PlanRefusals, AMistakeIsNamedByItsOwnLine) {
  const auto cell = [](const std::string& base, const std::string& text) {
    return kHead + "[base]\npreset = \"tiny\"\n" + base + "[[cell]]\nname = \"c\"\n" + text;
  };
  EXPECT_THAT(problem(cell("", "optimization = \"varlne\"\n")), HasSubstr("m.toml:8: unknown opt"));
  EXPECT_THAT(problem(cell("", "optimization = \"varlen\"\nreference = \"nope\"\n")),
              test::names("m.toml:9: unknown level 'nope'", "mask_dense, packed, varlen"));
  EXPECT_THAT(problem(cell("", "optimization = \"varlen\"\nlevels = [\n\"packed\",\n\"vrln\"]\n")),
              HasSubstr("m.toml:11: unknown level 'vrln'"));
  EXPECT_THAT(problem(cell("",
                           "optimization = \"ema_swap\"\nrounds = 6\nvisit_steps = 2\n"
                           "discard_steps = 2\n")),
              HasSubstr("m.toml:11: cell 'c': discard_steps"));
  // In a cell's `set`, and under [base], which is blamed once for all cells.
  EXPECT_THAT(
      problem(cell("", "optimization = \"varlen\"\n[cell.set]\nseq_len = 64\nrope_dim = 3\n")),
      HasSubstr("m.toml:11: cell 'c': key 'rope_dim'"));
  const std::string two = "optimization = \"varlen\"\n[[cell]]\noptimization = \"norms\"\n";
  EXPECT_THAT(problem(cell("rope_dim = 3\n", two)),
              AllOf(testing::StartsWith("m.toml:6: key 'rope_dim'"), Not(HasSubstr("\n"))));
  const std::string preset = kHead + "[base]\nseq_len = 64\npreset = \"tiyn\"\n[[cell]]\n" + two;
  EXPECT_THAT(problem(preset),
              AllOf(testing::StartsWith("m.toml:6: unknown preset 'tiyn'"), Not(HasSubstr("\n"))));
  EXPECT_THAT(problem(kHead + "[matrix]\noptimizations = [\n\"varlen\",\n\"nrms\"]\n"),
              HasSubstr("m.toml:7: unknown optimization 'nrms'"));
}

TEST_F(PlanRefusals, MissingData) {
  const Result<Plan> plan =
      make_plan(value_or_throw(parse_matrix(test::kSmallMatrix, "m.toml")), {});
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().message,
            "no training data: give --data PATH, or `data` under [base]"); // once, for two cells
  PlanOptions options;
  options.needs_data = false;
  const Plan shown = value_or_throw(
      make_plan(value_or_throw(parse_matrix(test::kSmallMatrix, "m.toml")), options));
  EXPECT_EQ(shown.lacks.size(), 1u);
  EXPECT_EQ(shown.ledger.cells.size(), 2u);
}

TEST_F(PlanRefusals, EmptyData) {
  const std::string file = scratch_.write("zero.txt", "");
  EXPECT_THAT(problem(test::kSmallMatrix, {}, file), test::names(file, "is empty"));
  PlanOptions options;
  options.needs_data = false;
  EXPECT_EQ(problem(test::kSmallMatrix, options, file), "");
}

TEST_F(PlanRefusals, CellsThatMakeNoSense) {
  const std::string cell = "[[cell]]\noptimization = \"ema_swap\"\n";
  EXPECT_THAT(problem(kHead + cell + cell), test::names("two cells", "'ema_swap'"));
  EXPECT_THAT(problem(kHead + cell + "levels = [\"clone_copy\"]\n"),
              test::names("no level", "the reference"));
  EXPECT_THAT(problem(kHead + cell + "visit_steps = 2\ndiscard_steps = 2\n"),
              HasSubstr("leaves nothing"));
  EXPECT_THAT(problem(kHead + cell + "visit_steps = 1\nset = { device = \"cuda\" }\n"),
              test::names("visit on a", "least 4 steps"));
  EXPECT_THAT(problem(kHead + "[[cell]]\noptimization = \"ddp_buckets\"\n"),
              AllOf(HasSubstr("'ddp_buckets'"), HasSubstr("`ranks`")));
  EXPECT_THAT(problem(kHead + "[[cell]]\noptimization = \"ddp_find_unused\"\n"
                              "set = { ranks = 2, ddp_static_graph = true }\n"),
              HasSubstr("'ddp_static_graph' and 'ddp_find_unused'"));
}

} // namespace refusals_test
} // namespace assay
