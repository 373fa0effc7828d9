// Which variants, pairs and contrasts a design has, by hand.
#include "core/statistics/design.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace assay {
namespace design_test {

using testing::ElementsAre;
using Names = std::vector<std::string>;

const Names kTwo{"amp", "norm"}, kThree{"a", "b", "c"};

Names variants(const DesignPlan& plan) {
  Names names;
  for (const DesignVariant& variant : plan.variants) names.push_back(variant.name);
  return names;
}

Names pairs(const DesignPlan& plan) {
  Names texts;
  for (const auto& [from, to] : plan.pairs)
    texts.push_back(plan.variants[from].name + " -> " + plan.variants[to].name);
  return texts;
}

// "-1 base -> norm"
Names terms(const DesignPlan& plan, const std::string& contrast) {
  Names found;
  for (const DesignContrast& one : plan.contrasts)
    if (one.name == contrast)
      for (const DesignTerm& term : one.terms)
        found.push_back(fmt::format("{} {} -> {}",
                                    term.weight,
                                    plan.variants[term.from].name,
                                    plan.variants[term.to].name));
  return found;
}

TEST(Design, ALadderAddsOneStepAfterTheOther) {
  const DesignPlan two = plan_design(Design::Ladder, kTwo);
  EXPECT_THAT(variants(two), ElementsAre("base", "amp", "amp+norm", "norm"));
  EXPECT_THAT(pairs(two),
              ElementsAre("base -> amp", "amp -> amp+norm", "base -> norm", "base -> amp+norm"));
  EXPECT_THAT(terms(two, "amp x norm"), ElementsAre("1 amp -> amp+norm", "-1 base -> norm"));
  const DesignPlan three = plan_design(Design::Ladder, kThree);
  EXPECT_THAT(variants(three), ElementsAre("base", "a", "a+b", "a+b+c", "b", "c"));
  EXPECT_THAT(
      pairs(three),
      ElementsAre(
          "base -> a", "a -> a+b", "a+b -> a+b+c", "base -> b", "base -> c", "base -> a+b+c"));
  EXPECT_THAT(terms(three, "all 3 steps"),
              ElementsAre("1 a -> a+b", "-1 base -> b", "1 a+b -> a+b+c", "-1 base -> c"));
}

TEST(Design, AnAblationTakesOneStepOut) {
  const DesignPlan plan = plan_design(Design::Ablation, kThree);
  EXPECT_THAT(variants(plan), ElementsAre("base", "all", "all but a", "all but b", "all but c"));
  EXPECT_THAT(
      pairs(plan),
      ElementsAre("base -> all", "all but a -> all", "all but b -> all", "all but c -> all"));
  EXPECT_THAT(plan.variants[3].steps, ElementsAre(0, 2));
  EXPECT_THAT(
      terms(plan, "all 3 steps"),
      ElementsAre(
          "-1 base -> all", "1 all but a -> all", "1 all but b -> all", "1 all but c -> all"));
}

TEST(Design, AFactorialHasEveryCombination) {
  const DesignPlan two = plan_design(Design::Factorial, kTwo);
  EXPECT_THAT(variants(two), ElementsAre("base", "amp", "norm", "amp+norm"));
  EXPECT_THAT(pairs(two), ElementsAre("base -> amp", "base -> norm", "base -> amp+norm"));
  EXPECT_THAT(terms(two, "amp"), ElementsAre("0.5 base -> amp", "0.5 norm -> amp+norm"));
  EXPECT_THAT(terms(two, "amp x norm"), ElementsAre("-1 base -> amp", "1 norm -> amp+norm"));
  const DesignPlan three = plan_design(Design::Factorial, kThree);
  EXPECT_THAT(variants(three), ElementsAre("base", "a", "b", "a+b", "c", "a+c", "b+c", "a+b+c"));
  EXPECT_EQ(three.contrasts.size(), 6u);
  EXPECT_THAT(terms(three, "a x c"),
              ElementsAre("-0.5 base -> a", "-0.5 b -> a+b", "0.5 c -> a+c", "0.5 b+c -> a+b+c"));
  EXPECT_EQ(plan_design(Design::Factorial, {"a", "b", "c", "d", "e"}).variants.size(), 32u);
}

// Log times with main effects and interactions of pairs alone.
std::vector<double> log_times(const DesignPlan& plan,
                              const std::vector<double>& effects,
                              const std::map<std::pair<std::size_t, std::size_t>, double>& pairs) {
  std::vector<double> times;
  for (const DesignVariant& variant : plan.variants) {
    double y = 3;
    for (const std::size_t step : variant.steps) y += effects[step];
    for (const auto& [pair, interaction] : pairs) {
      const auto has = [&](std::size_t step) {
        return std::ranges::find(variant.steps, step) != variant.steps.end();
      };
      if (has(pair.first) && has(pair.second)) y += interaction;
    }
    times.push_back(y);
  }
  return times;
}

double value(const DesignContrast& contrast, const std::vector<double>& log_times) {
  double sum = 0;
  for (const DesignTerm& term : contrast.terms)
    sum += term.weight * (log_times[term.to] - log_times[term.from]);
  return sum;
}

// Steps that interact in pairs only give their interactions, in ladder and ablation the sum of
// them.
TEST(Design, ContrastsRecoverMainEffectsAndInteractions) {
  const std::vector<double> effects{-0.2, 0.05, 0.01};
  const std::map<std::pair<std::size_t, std::size_t>, double> interactions{{{0, 1}, 0.03},
                                                                           {{1, 2}, -0.01}};
  for (const Design design : {Design::Ladder, Design::Ablation}) {
    const DesignPlan plan = plan_design(design, kThree);
    EXPECT_NEAR(value(plan.contrasts[0], log_times(plan, effects, interactions)), 0.02, 1e-12);
    EXPECT_EQ(plan.contrasts[0].kind, ContrastKind::Interaction);
  }
  const DesignPlan plan = plan_design(Design::Factorial, kThree);
  const std::vector<double> times = log_times(plan, effects, interactions);
  // A main effect contains half of each interaction of its step.
  const std::map<std::string, double> expected{{"a", -0.2 + 0.015},
                                               {"b", 0.05 + 0.015 - 0.005},
                                               {"c", 0.01 - 0.005},
                                               {"a x b", 0.03},
                                               {"a x c", 0},
                                               {"b x c", -0.01}};
  for (const DesignContrast& contrast : plan.contrasts) {
    EXPECT_NEAR(value(contrast, times), expected.at(contrast.name), 1e-12) << contrast.name;
    EXPECT_EQ(contrast.kind == ContrastKind::MainEffect, contrast.name.size() == 1);
  }
}

TEST(Design, AStepHasNoNameOfAnotherVariant) {
  for (const char* name : {"base", "all", "all but a", "a+b"})
    EXPECT_NE(wrong_step_name(name), "") << name;
  for (const char* name : {"amp", "all of it", "base 2"}) EXPECT_EQ(wrong_step_name(name), "");
}

} // namespace design_test
} // namespace assay
