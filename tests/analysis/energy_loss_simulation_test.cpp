// Coverage and false verdicts of the energy and of the time to a loss, by simulated ledgers with
// fixed seeds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "experiments/analysis/report.h"
#include "experiments/demo/synthetic_ledger.h"
#include "experiments/evidence/energy/energy.h"
#include "experiments/evidence/loss/loss.h"
#include "experiments/evidence/loss/time_to_loss.h"
#include "tests/synthetic_cells.h"

namespace assay {
namespace energy_loss_simulation_test {

using synthetic::SyntheticCell;
using synthetic::SyntheticPlan;

constexpr int kLedgers = 2000;

// The 99.9 % range of a rate over the ledgers.
double margin(double rate) {
  return 3.3 * std::sqrt(rate * (1 - rate) / kLedgers);
}

// Shares of ledgers: whose 95 % interval has the truth, and whose interval at alpha excludes 0.
struct Rates {
  double covered = 0, excludes_0 = 0;
  void count(const Estimate& estimate, double truth) {
    covered += estimate.at_95->contains(truth) / double{kLedgers};
    excludes_0 += !estimate.judged->contains(0) / double{kLedgers};
  }
};

// One energy launch of 6 rounds, whose joules are still to be set.
LedgerData energy_ledger(double truth) {
  SyntheticCell cell = synthetic::two_level_cell(truth);
  cell.timed_launches = 1;
  SyntheticPlan plan;
  plan.launches = 1;
  plan.rounds = 6;
  plan.cells = {cell};
  LedgerData data = synthetic_ledger(plan);
  for (LaunchRow& launch : data.launches)
    if (launch.kind == LaunchKind::Timed) launch.kind = LaunchKind::Energy;
  return data;
}

// One launch of 6 rounds. Board and room warm up over it, which moves both sides alike; a visit
// scatters by 0.5 %, and `outliers` of them draw up to 10 % more.
Rates energy_rates(double truth, double outliers, std::uint64_t seed) {
  LedgerData data = energy_ledger(truth);
  std::mt19937_64 random(seed);
  std::normal_distribution<double> noise(0, 0.005);
  std::uniform_real_distribution<double> more(0, 0.1);
  std::bernoulli_distribution is_outlier(outliers);
  Rates rates;
  for (int ledger = 0; ledger < kLedgers; ++ledger) {
    for (VisitRow& visit : data.visits) {
      const double of_variant = data.variant(visit.variant).level == "fast" ? truth : 0;
      visit.covariates.energy_j = 200 * std::exp(of_variant + 0.01 * visit.round + noise(random) +
                                                 (is_outlier(random) ? more(random) : 0));
    }
    const std::vector<CellView> views = cell_views(data);
    const CellView& view = views.at(0);
    const auto energy = energy_effect(view, *view.baseline, *view.levels.at(0), 0.05);
    rates.count(energy.value().log_ratio, truth);
  }
  return rates;
}

// 60 J in a visit of 8 units, of which 6 count and take 1500 tokens: 7.5 J a unit, 30 mJ a token.
TEST(Energy, IsToldOfAUnitAndOfAToken) {
  LedgerData data = energy_ledger(0);
  for (VisitRow& visit : data.visits) {
    visit.covariates.energy_j = 60;
    visit.steps = 6, visit.tokens = 1500;
    visit.sample_ns.assign(8, 1'000'000);
  }
  const auto drawn = [&] {
    const std::vector<CellView> views = cell_views(data);
    return energy_effect(views.at(0), *views.at(0).baseline, *views.at(0).levels.at(0), 0.05)
        .value();
  };
  EXPECT_NEAR(drawn().a_j, 7.5, 1e-9);
  EXPECT_NEAR(drawn().a_token_j, 0.03, 1e-9);
  for (VisitRow& visit : data.visits) visit.tokens = 0;
  EXPECT_EQ(drawn().b_token_j, 0) << "unknown";
}

TEST(EnergySimulation, IntervalsCoverAndKeepTheirLevel) {
  for (const double truth : {0.0, -0.08}) {
    const Rates rates = energy_rates(truth, 0, 91);
    EXPECT_NEAR(rates.covered, 0.95, margin(0.05)) << truth;
    if (truth == 0) {
      EXPECT_NEAR(rates.excludes_0, 0.05, margin(0.05));
    } else {
      EXPECT_GE(rates.excludes_0, 0.99);
    }
  }
  EXPECT_GE(energy_rates(0, 0.1, 92).covered, 0.95 - margin(0.05)) << "with outliers";
}

// Losses fall from 8 to 3 nats with a time constant of 8 visits, times exp(longer) for the
// candidate. Seeds differ by 5 % of it, both sides of a seed by 3 % each, a visit's loss by 0.02
// nats. A launch's step time scatters by 1 %.
constexpr double kTarget = 4.5;
constexpr std::size_t kVisits = 60;

struct Side { // of a seed
  double longer = 0;
  double loss(std::size_t visit) const {
    return 3 + 5 * std::exp(-static_cast<double>(visit + 1) / (8 * std::exp(longer)));
  }
};

// Those of a seed: baseline, candidate.
std::pair<Side, Side> draw_seed(double longer, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  const double seed = 0.05 * normal(random);
  const Side a{seed + 0.03 * normal(random)};
  return {a, {seed + 0.03 * normal(random) + longer}};
}

// What the estimate is of: the mean over all seeds of the log of the ratio of steps, without the
// noise of a visit.
double true_ratio(double longer) {
  constexpr int kSeeds = 20'000;
  std::mt19937_64 random(94);
  const auto steps = [](const Side& side) {
    std::vector<double> curve(kVisits);
    for (std::size_t visit = 0; visit < kVisits; ++visit) curve[visit] = side.loss(visit);
    return steps_to_loss(curve, final_visits(kVisits), 5, kTarget).value().steps;
  };
  double sum = 0;
  for (int seed = 0; seed < kSeeds; ++seed) {
    const auto [a, b] = draw_seed(longer, random);
    sum += std::log(steps(b) / steps(a)) / kSeeds;
  }
  return sum;
}

struct ToLoss {
  Rates steps, time;
};
// With `step`: the true change of a step's time.
ToLoss loss_rates(double longer, double step, int seeds) {
  SyntheticCell cell = synthetic::two_level_cell(step);
  cell.equivalence = "objective";
  cell.loss_seeds = seeds;
  SyntheticPlan plan;
  plan.rounds = 4;
  plan.cells = {cell};
  LedgerData data = synthetic_ledger(plan);
  data.cells[0].loss_target = kTarget;
  data.cells[0].loss_rounds = kVisits;
  data.cells[0].loss_steps = 5;
  std::erase_if(data.visits, [&](const VisitRow& visit) {
    return std::ranges::find(data.launches, visit.launch, &LaunchRow::id)->kind == LaunchKind::Loss;
  });
  const double expected = true_ratio(longer);
  std::mt19937_64 random(93);
  std::normal_distribution<double> normal;
  ToLoss rates;
  for (int ledger = 0; ledger < kLedgers; ++ledger) {
    LedgerData one = data;
    for (const LaunchRow& launch : data.launches) {
      if (launch.kind != LaunchKind::Loss) continue;
      const auto [a, b] = draw_seed(longer, random);
      for (const VariantRow& variant : data.variants)
        for (std::size_t round = 0; round < kVisits && variant.role != Role::Control; ++round) {
          const Side& side = variant.level == "fast" ? b : a;
          VisitRow visit;
          visit.launch = launch.id, visit.variant = variant.id;
          visit.round = static_cast<int>(round), visit.steps = 5;
          visit.loss = side.loss(round) + 0.02 * normal(random);
          one.visits.push_back(visit);
        }
    }
    Effect effect;
    effect.a_ns = 1e7;
    for (int launch = 0; launch < 5; ++launch)
      effect.theta.by_launch.push_back(step + 0.01 * normal(random));
    const std::vector<CellView> views = cell_views(one);
    const CellView& view = views.at(0);
    const auto result = time_to_loss(view, *view.baseline, *view.levels.at(0), effect, 0.05);
    rates.steps.count(*result.value().steps, expected);
    rates.time.count(*result->time, expected + step);
  }
  return rates;
}

TEST(TimeToLossSimulation, IntervalsCoverAndKeepTheirLevel) {
  for (const int seeds : {4, 8})
    for (const double longer : {0.0, 0.1}) { // with 0.1, a faster step makes up for it
      const ToLoss rates = loss_rates(longer, longer == 0 ? -0.1 : -true_ratio(longer), seeds);
      EXPECT_NEAR(rates.steps.covered, 0.95, margin(0.05)) << seeds << " seeds, " << longer;
      EXPECT_NEAR(rates.time.covered, 0.95, margin(0.05)) << seeds << " seeds, " << longer;
      const Rates& null = longer == 0 ? rates.steps : rates.time;
      EXPECT_NEAR(null.excludes_0, 0.05, margin(0.05)) << seeds << " seeds, " << longer;
    }
}

} // namespace energy_loss_simulation_test
} // namespace assay
