// Main effects and interactions: by hand, by their rules, and by simulation with fixed seeds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "core/statistics/statistics.h"
#include "experiments/analysis/report.h"
#include "experiments/report/render.h"
#include "experiments/report/section.h"
#include "tests/analysis/synthetic_report.h"
#include "tests/names.h"
#include "tests/synthetic_design.h"

namespace assay {
namespace contrasts_test {

using synthetic::design_cell;
using synthetic::synthetic_ledger;
using synthetic::SyntheticCell;
using synthetic::SyntheticPlan;

const double kAmp = std::log(1.03), kNorm = std::log(1.02), kTogether = std::log(0.985);

SyntheticCell phases(Design design, double interaction = kTogether) {
  return design_cell(design, {{"amp", kAmp}, {"norm", kNorm}}, interaction);
}

SyntheticPlan quiet(SyntheticCell cell) {
  SyntheticPlan plan = plan_of(std::move(cell));
  plan.noise = 0.002;
  plan.tail_share = 0;
  return plan;
}

const Contrast& contrast(const Report& report, const std::string& name) {
  const std::vector<Contrast>& all = report.cells.at(0).contrasts;
  const auto found = std::ranges::find(all, name, [](const Contrast& one) { return one.row.name; });
  if (found == all.end()) throw std::runtime_error("no contrast " + name);
  return *found;
}

VisitRow& visit_of(LedgerData& data, std::int64_t launch, const std::string& variant, int round) {
  for (VisitRow& visit : data.visits)
    if (visit.launch == launch && visit.round == round &&
        data.variant(visit.variant).name == variant)
      return visit;
  throw std::runtime_error("no such visit");
}

// Three launches of three rounds. In each the interaction is by hand the median of ln(both / amp)
// minus that of ln(norm / base): the medians may come from different rounds.
TEST(Contrasts, AreSumsOfMediansLaunchByLaunch) {
  SyntheticCell cell = phases(Design::Ladder);
  cell.timed_launches = 3;
  SyntheticPlan plan = plan_of(cell);
  plan.rounds = 3;
  LedgerData data = synthetic_ledger(plan);
  // Of both against amp, then of norm against base.
  const double on_top[3][3] = {{0.5, 0.6, 0.7}, {0.9, 0.8, 0.4}, {0.5, 0.5, 3}};
  const double alone[3][3] = {{0.9, 0.5, 0.2}, {0.4, 0.4, 0.4}, {0.7, 0.6, 0.5}};
  std::size_t row = 0;
  for (const LaunchRow& launch : data.launches) {
    if (launch.kind != LaunchKind::Timed) continue;
    for (int round = 0; round < 3; ++round) {
      const double ns = 1e7 * (1 + round); // common to the round, so it cancels
      const auto set = [&](const char* variant, double factor) {
        visit_of(data, launch.id, variant, round + 3).wall_ns = std::llround(ns * factor);
      };
      set("base", 1);
      set("amp", 0.8);
      set("amp+norm", 0.8 * on_top[row][round]);
      set("norm", alone[row][round]);
    }
    ++row;
  }
  const Report report = judge_results(data);
  const Contrast& found = contrast(report, "amp x norm");
  ASSERT_TRUE(found.effect);
  const std::vector<double> sums{std::log(0.6 / 0.5), std::log(0.8 / 0.4), std::log(0.5 / 0.6)};
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(found.effect->theta.by_launch[i], sums[i], 1e-6);
  EXPECT_NEAR(found.effect->theta.value, mean(sums), 1e-6);
  EXPECT_NEAR(found.effect->theta.at_95->upper, t_interval(sums, 0.05)->upper, 1e-6);
  EXPECT_NEAR(found.effect->theta.judged->upper, t_interval(sums, 0.01)->upper, 1e-6);
  // By total time a round weighs as long as it lasts: 1, 2 and 3.
  EXPECT_NEAR(found.effect->total_time.by_launch[0],
              std::log((0.5 + 2 * 0.6 + 3 * 0.7) / (0.9 + 2 * 0.5 + 3 * 0.2)),
              1e-6);
  // base -> amp, amp -> amp+norm, base -> norm, base -> amp+norm, and the interaction.
  EXPECT_EQ(report.judgements, 5);
  EXPECT_EQ(count_judgements(data), 5);
  EXPECT_EQ(report.cells[0].comparisons.size(), 4u);
}

// It says no more than the table of verdicts, whose effects it adds up.
TEST(Contrasts, AreArithmeticOfTheEffects) {
  const auto effect = [](const Report& report, const std::string& a, const std::string& b) {
    for (const Comparison& comparison : report.cells.at(0).comparisons)
      if (comparison.a == a && comparison.b == b) return comparison.effect->theta.value;
    throw std::runtime_error("no comparison " + a + " " + b);
  };
  const std::vector<std::pair<std::string, double>> steps{{"a", 0.1}, {"b", -0.1}, {"c", 0}};
  const Report ladder =
      judge_results(synthetic_ledger(plan_of(design_cell(Design::Ladder, steps, 0.1))));
  EXPECT_NEAR(contrast(ladder, "all 3 steps").effect->theta.value,
              effect(ladder, "a", "a+b") - effect(ladder, "base", "b") +
                  effect(ladder, "a+b", "a+b+c") - effect(ladder, "base", "c"),
              1e-12);
  const Report ablation =
      judge_results(synthetic_ledger(plan_of(design_cell(Design::Ablation, steps, 0.1))));
  EXPECT_NEAR(contrast(ablation, "all 3 steps").effect->theta.value,
              effect(ablation, "all but a", "all") + effect(ablation, "all but b", "all") +
                  effect(ablation, "all but c", "all") - effect(ablation, "base", "all"),
              1e-12);
}

TEST(Contrasts, SayWhetherStepsInteract) {
  const auto state = [](Design design, double interaction) {
    return contrast(judge_results(synthetic_ledger(quiet(phases(design, interaction)))),
                    "amp x norm")
        .state;
  };
  for (const Design design : {Design::Ladder, Design::Ablation, Design::Factorial}) {
    EXPECT_EQ(state(design, kTogether), ContrastState::Interact) << to_string(design);
    EXPECT_EQ(state(design, -kTogether), ContrastState::Interact) << to_string(design);
    EXPECT_EQ(state(design, 0), ContrastState::AddUp) << to_string(design);
  }
  const Report report = judge_results(
      synthetic_ledger(quiet(design_cell(Design::Factorial, {{"amp", -0.1}, {"norm", 0.1}}, 0))));
  EXPECT_EQ(contrast(report, "amp").state, ContrastState::Faster);
  EXPECT_EQ(contrast(report, "norm").state, ContrastState::Slower);
  const Report none = judge_results(
      synthetic_ledger(quiet(design_cell(Design::Factorial, {{"amp", 0}, {"norm", 0}}, 0))));
  EXPECT_EQ(contrast(none, "amp").state, ContrastState::NoEffect);
}

TEST(Contrasts, WithoutPrecisionAreUndecided) {
  SyntheticPlan plan = plan_of(phases(Design::Ladder));
  plan.noise = 0.2;
  const Contrast noisy = contrast(judge_results(synthetic_ledger(plan)), "amp x norm");
  EXPECT_EQ(noisy.state, ContrastState::Undecided);
  EXPECT_EQ(noisy.reason.code, ReasonCode::IntervalHoldsZero);
  const auto with_launches = [](int launches) {
    SyntheticCell cell = phases(Design::Ladder, -0.1);
    cell.timed_launches = launches;
    return contrast(judge_results(synthetic_ledger(quiet(cell))), "amp x norm");
  };
  EXPECT_EQ(with_launches(4).state, ContrastState::Undecided);
  EXPECT_EQ(with_launches(4).reason.code, ReasonCode::Provisional);
  EXPECT_EQ(with_launches(2).reason.code, ReasonCode::TooFewLaunches);
  EXPECT_EQ(with_launches(5).state, ContrastState::Interact);
}

// Whatever makes a pair invalid leaves nothing to believe in a sum with it.
TEST(Contrasts, NeedEveryOneOfTheirPairs) {
  const auto broken = [](const auto& breaks, Design design = Design::Factorial) {
    SyntheticPlan plan = quiet(design_cell(design, {{"a", 0.1}, {"b", 0.1}, {"c", 0.1}}, 0.1));
    breaks(plan.cells[0]);
    return judge_results(synthetic_ledger(plan));
  };
  const auto reason = [](const Report& report, const std::string& of) {
    EXPECT_EQ(contrast(report, of).state, ContrastState::Undecided) << of;
    return contrast(report, of).reason;
  };
  // a+c, with which no comparison of the table is made.
  const Report rejected = broken([](SyntheticCell& c) { c.levels[5].gate_passes = false; });
  for (const char* of : {"a", "c", "a x c", "b x c"})
    EXPECT_EQ(reason(rejected, of).code, ReasonCode::GateFailed) << of;
  EXPECT_THAT(reason(rejected, "a").text, test::names("c -> a+c", "PARITY_FAILED"));
  for (const int launch : {1, 4}) { // with too few launches left, and with enough
    const Report lost = broken([&](SyntheticCell& c) { c.levels[5].nan_in_launch = launch; });
    EXPECT_EQ(reason(lost, "a").code, ReasonCode::LossLost);
  }
  EXPECT_EQ(reason(broken([](SyntheticCell& c) { c.control_effect = 0.2; }), "a x b").code,
            ReasonCode::ControlAlarm);
  EXPECT_EQ(reason(broken([](SyntheticCell& c) { c.disturbed_share = 0.15; }), "a x b").code,
            ReasonCode::PairsDisturbed);
  const Report ladder =
      broken([](SyntheticCell& c) { c.levels[4].gate_passes = false; }, Design::Ladder);
  EXPECT_EQ(reason(ladder, "all 3 steps").code, ReasonCode::GateFailed);
  EXPECT_EQ(ladder.cells[0].comparisons[0].verdict.validity, Validity::Ok) << "base -> a";
}

// A launch that one pair lacks has no sum.
TEST(Contrasts, TakeLaunchesThatEveryPairHas) {
  LedgerData data = synthetic_ledger(quiet(phases(Design::Ladder)));
  std::int64_t launch = 0;
  for (const LaunchRow& one : data.launches)
    if (one.kind == LaunchKind::Timed && launch == 0) launch = one.id;
  for (VisitRow& visit : data.visits)
    if (visit.launch == launch && data.variant(visit.variant).name == "norm")
      visit.covariates.steal_share = 0.5;
  const Report report = judge_results(data);
  EXPECT_EQ(first(report).effect->launches.size(), 5u); // base -> amp
  const Contrast& one = contrast(report, "amp x norm");
  EXPECT_EQ(one.effect->launches.size(), 4u);
  EXPECT_NEAR(one.effect->theta.value, kTogether, 0.002);
  EXPECT_EQ(one.reason.code, ReasonCode::Provisional);
}

TEST(Contrasts, AreInReportJson) {
  const Report report = judge_results(synthetic_ledger(quiet(phases(Design::Ladder))));
  const auto json = nlohmann::json::parse(render_json(report));
  const auto& cell = json.at("cells").at(0);
  EXPECT_EQ(cell.at("design"), "ladder");
  const auto& one = cell.at("contrasts").at(0);
  EXPECT_EQ(one.at("name"), "amp x norm");
  EXPECT_EQ(one.at("state"), "interact");
  EXPECT_EQ(one.at("kind"), "interaction");
  EXPECT_NEAR(one.at("effect").at("time").at("log_ratio"), kTogether, 0.002);
  EXPECT_FALSE(one.at("effect").contains("baseline_unit_ns"));
  EXPECT_EQ(one.at("terms").at(1).at("candidate"), "norm");
  EXPECT_EQ(one.at("terms").at(1).at("weight"), -1);
}

double binomial_margin(double rate, int n) {
  return 3.3 * std::sqrt(rate * (1 - rate) / n);
}

constexpr int kLedgers = 1000;

// Five launches that differ from variant to variant by 0.3 %, visits by 6 % with long ones: the
// noise of small steps on two cores.
Report simulated(SyntheticCell cell, int seed) {
  SyntheticPlan plan = plan_of(std::move(cell));
  plan.seed = static_cast<std::uint64_t>(50'000 + seed);
  plan.rounds = 20;
  plan.noise = 0.06;
  plan.launch_sd = 0.003;
  return judge_results(synthetic_ledger(plan));
}

// Of so many ledgers, those whose 95 % interval contains the truth, for each contrast.
std::map<std::string, int>
coverage(const SyntheticCell& cell, const std::map<std::string, double>& truth, int ledgers) {
  std::map<std::string, int> covered;
  for (int seed = 0; seed < ledgers; ++seed) {
    const Report report = simulated(cell, seed);
    for (const auto& [name, value] : truth)
      covered[name] += contrast(report, name).effect->theta.at_95->contains(value);
  }
  return covered;
}

// The ladder's interaction is of the same visits, by other pairs.
TEST(ContrastSimulation, MainEffectsAndInteractionsAreRecovered) {
  SyntheticCell cell = phases(Design::Factorial);
  cell.contrasts.push_back(phases(Design::Ladder).contrasts[0]);
  cell.contrasts.back().name = "ladder";
  for (const auto& [name, covered] : coverage(cell,
                                              {{"amp", kAmp + kTogether / 2},
                                               {"norm", kNorm + kTogether / 2},
                                               {"amp x norm", kTogether},
                                               {"ladder", kTogether}},
                                              kLedgers)) {
    testing::Test::RecordProperty("covered/" + name, covered);
    EXPECT_GE(covered, 940) << name;
    EXPECT_LE(covered, kLedgers * (0.95 + binomial_margin(0.05, kLedgers))) << name;
  }
}

TEST(ContrastSimulation, LadderAndAblationRecoverTheSumOfInteractions) {
  constexpr int kFew = 300;
  const std::vector<std::pair<std::string, double>> steps{
      {"a", -0.1}, {"b", -0.05}, {"c", 0.02}, {"d", -0.2}};
  for (const Design design : {Design::Ladder, Design::Ablation}) {
    const int covered =
        coverage(design_cell(design, steps, 0.01), {{"all 4 steps", 0.06}}, kFew).at("all 4 steps");
    EXPECT_NEAR(covered, 0.95 * kFew, kFew * binomial_margin(0.05, kFew)) << to_string(design);
  }
}

// Why a contrast is no median over rounds of the weighted sum of log times (docs/statistics.md):
// with the noise of these ledgers that of a ladder, whose base counts n - 1 times, is biased.
TEST(ContrastSimulation, AMedianOfSumsWouldBeBiased) {
  std::mt19937_64 random(71);
  std::normal_distribution<> normal(0, 0.06);
  std::bernoulli_distribution is_long(0.02);
  std::uniform_real_distribution<> longer(0, 0.5);
  const auto noise = [&] { return normal(random) + (is_long(random) ? longer(random) : 0); };
  const auto bias = [&](int steps) {
    std::vector<double> sums(400'000);
    for (double& sum : sums) {
      sum = noise() + (steps - 1) * noise();
      for (int step = 0; step < steps; ++step) sum -= noise();
    }
    return median(sums);
  };
  EXPECT_NEAR(bias(2), 0, 0.002);
  EXPECT_NEAR(bias(4), -0.0055, 0.002);
  EXPECT_NEAR(bias(8), -0.0217, 0.004);
}

// `assay plan` expects a contrast to scatter as pairs do, times its factor.
TEST(ContrastSimulation, ScatterIsWhatThePlanExpects) {
  std::mt19937_64 random(72);
  std::normal_distribution<> normal;
  const auto variance_ratio = [&](Design design, std::size_t contrast) {
    constexpr int kLaunches = 4000, kRounds = 21;
    const DesignPlan plan = plan_design(design, {"a", "b", "c", "d"});
    double of_contrast = 0, of_pair = 0;
    for (int launch = 0; launch < kLaunches; ++launch) {
      std::vector<std::vector<double>> visits(plan.variants.size(), std::vector<double>(kRounds));
      for (std::vector<double>& of_variant : visits)
        for (double& visit : of_variant) visit = normal(random);
      const auto effect = [&](std::size_t from, std::size_t to) {
        std::vector<double> pairs(kRounds);
        for (std::size_t r = 0; r < kRounds; ++r) pairs[r] = visits[to][r] - visits[from][r];
        return median(pairs);
      };
      double sum = 0;
      for (const DesignTerm& term : plan.contrasts[contrast].terms)
        sum += term.weight * effect(term.from, term.to);
      of_contrast += sum * sum;
      of_pair += std::pow(effect(0, 1), 2);
    }
    return of_contrast / of_pair;
  };
  EXPECT_NEAR(variance_ratio(Design::Ladder, 0) / (6 - 4 / 3. + 2), 1, 0.1);
  EXPECT_NEAR(variance_ratio(Design::Ablation, 0) / (5 + 4 / 3.), 1, 0.1);
  EXPECT_NEAR(variance_ratio(Design::Factorial, 4) / 0.5, 1, 0.1); // a x b
}

// Without an interaction the word "interact" comes as often as alpha / m says, and over all
// contrasts and verdicts of a plan at most alpha.
TEST(ContrastSimulation, NoInteractionIsSeldomCalledOne) {
  int false_words = 0, outside_95 = 0, false_plans = 0;
  const SyntheticCell cell = design_cell(Design::Factorial, {{"amp", 0}, {"norm", 0}}, 0);
  double alpha = 0;
  for (int seed = 0; seed < kLedgers; ++seed) {
    const Report report = simulated(cell, seed);
    alpha = report.judged_alpha;
    const Contrast& one = contrast(report, "amp x norm");
    false_words += one.state == ContrastState::Interact;
    outside_95 += !one.effect->theta.at_95->contains(0);
    const std::vector<Contrast>& contrasts = report.cells[0].contrasts;
    const std::vector<Comparison>& comparisons = report.cells[0].comparisons;
    false_plans += std::ranges::any_of(contrasts,
                                       [](const Contrast& c) {
                                         return c.state == ContrastState::Interact ||
                                                c.state == ContrastState::Faster ||
                                                c.state == ContrastState::Slower;
                                       }) ||
                   std::ranges::any_of(comparisons, [](const Comparison& c) {
                     return c.verdict.speed == Speed::Faster || c.verdict.speed == Speed::Slower;
                   });
  }
  EXPECT_DOUBLE_EQ(alpha, 0.05 / 6);
  RecordProperty("interact", false_words);
  RecordProperty("any", false_plans);
  EXPECT_LE(false_words, kLedgers * (alpha + binomial_margin(alpha, kLedgers)));
  EXPECT_LE(false_plans, kLedgers * (0.05 + binomial_margin(0.05, kLedgers)));
  EXPECT_NEAR(outside_95, 0.05 * kLedgers, kLedgers * binomial_margin(0.05, kLedgers));
}

} // namespace contrasts_test
} // namespace assay
