// The cost of a mixture of experts by hand.
#include <gtest/gtest.h>

#include "model/config/cost/step_cost.h"

namespace assay {
namespace expert_cost_test {

double flops(const StepShape& shape, const std::string& name) {
  for (const OpCost& cost : step_cost(shape))
    if (cost.name == name) return cost.flops;
  return -1;
}

// Tiny: 256 tokens, width 128, three layers with 8 experts of 96, of which a token takes two,
// beside a feed-forward of 96. Three products of 128 x 96 a token and expert, three times with
// training.
TEST(ExpertCost, ATokenPaysForTheExpertsThatItTakes) {
  TrainConfig config;
  config.preset = "moe-tiny";
  const StepShape shape = step_shape(value_or_throw(resolve(config)));
  const double one = 6.0 * 256 * 3 * 128 * 96;
  EXPECT_DOUBLE_EQ(flops(shape, "experts"), 3 * 2 * one);
  EXPECT_DOUBLE_EQ(flops(shape, "feed forward"), 3 * one);
  EXPECT_DOUBLE_EQ(flops(shape, "router"), 3 * 6.0 * 256 * 128 * 8);
  EXPECT_FALSE(counts_all_launches(shape));
  config.experts = 16; // more of them change the router alone
  const StepShape more = step_shape(value_or_throw(resolve(config)));
  EXPECT_DOUBLE_EQ(flops(more, "experts"), flops(shape, "experts"));
  EXPECT_DOUBLE_EQ(flops(more, "router"), 2 * flops(shape, "router"));
}

// Every expert's matrices are matrices of their own: 3 layers of 8 with 192 x 128 and 128 x 96.
TEST(ExpertCost, MuonTakesEachExpertsMatrices) {
  TrainConfig config;
  config.preset = "moe-tiny";
  config.optimizer = OptimizerKind::Muon;
  config = value_or_throw(resolve(config));
  TrainConfig one = config;
  one.experts = 1, one.experts_taken = 1;
  const auto iterations = [](double n, double m) { return 5 * (4 * n * m * m + 2 * m * m * m); };
  EXPECT_DOUBLE_EQ(flops(step_shape(config), "muon") -
                       flops(step_shape(value_or_throw(resolve(one))), "muon"),
                   3 * 7 * (iterations(192, 128) + iterations(128, 96)));
}

} // namespace expert_cost_test
} // namespace assay
