#include "app/assay/plan_budget.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/text.h"
#include "experiments/analysis/wording.h"

namespace assay::cli {

namespace {

constexpr int kLeastRounds = 6, kMostRounds = 2000;

// Of the cells that have one; nothing where none has.
std::optional<double> largest_mde(const PlanEstimate& estimate) {
  std::optional<double> largest;
  for (const CellEstimate& cell : estimate.cells)
    if (cell.mde) largest = std::max(largest.value_or(0), *cell.mde);
  return largest;
}

// The most rounds with which the plan fits; nothing where it does not with the least, and 0 where
// every cell has rounds of its own.
std::optional<int> rounds_that_fit(double seconds, int launches, const EstimateOf& estimate_of) {
  const std::optional<double> least = estimate_of(launches, kLeastRounds).seconds,
                              most = estimate_of(launches, kMostRounds).seconds;
  if (!least || !most || *least > seconds) return std::nullopt;
  if (*most == *least) return 0;
  if (*most <= seconds) return kMostRounds;
  const double share = (seconds - *least) / (*most - *least);
  const int more = static_cast<int>(share * (kMostRounds - kLeastRounds));
  return kLeastRounds + more / 2 * 2;
}

} // namespace

BudgetChoice choose_for_budget(double seconds, const EstimateOf& estimate_of) {
  BudgetChoice best{seconds};
  for (int launches = kFullLaunches; launches <= kMostLooked; ++launches) {
    const std::optional<int> rounds = rounds_that_fit(seconds, launches, estimate_of);
    if (!rounds) continue;
    const PlanEstimate estimate = estimate_of(launches, std::max(*rounds, kLeastRounds));
    const std::optional<double> mde = largest_mde(estimate);
    best.fits = true;
    if (mde && estimate.seconds && (best.launches == 0 || *mde < best.mde))
      best = {seconds, launches, true, *rounds, *estimate.seconds, *mde};
  }
  return best;
}

nlohmann::json budget_json(const BudgetChoice& choice) {
  nlohmann::json out = {{"seconds", choice.budget}, {"best", nullptr}};
  if (choice.launches > 0)
    out["best"] = {
        {"launches", choice.launches},
        {"rounds", choice.rounds == 0 ? nlohmann::json() : nlohmann::json(choice.rounds)},
        {"seconds", choice.seconds},
        {"mde", std::expm1(choice.mde)}};
  return out;
}

void print_budget(const BudgetChoice& choice, const TableStyle& style) {
  TextWriter out(style);
  const std::string budget = human_seconds(choice.budget);
  const bool own = choice.rounds == 0; // rounds of all cells
  if (choice.launches > 0)
    out.line(fmt::format(
        "budget {}: with {} launches{} the plan takes {} and the MDE of its least sensitive cell "
        "is {}: --set experiment.launches={}{}",
        budget,
        choice.launches,
        own ? "" : fmt::format(" of {} rounds", choice.rounds),
        human_seconds(choice.seconds),
        share_text(std::expm1(choice.mde)),
        choice.launches,
        own ? "; every cell has rounds of its own"
            : fmt::format(" --set measure.rounds={}", choice.rounds)));
  else if (choice.fits)
    out.line(
        fmt::format("budget {}: long enough, but no cell can give a verdict: a verdict needs {} "
                    "launches, and each cell has fewer of its own",
                    budget,
                    kFullLaunches));
  else
    out.line(fmt::format("budget {}: too short for {} launches of {} rounds; take fewer cells or "
                         "a smaller preset",
                         budget,
                         kFullLaunches,
                         kLeastRounds));
  fmt::print("{}", out.take());
}

} // namespace assay::cli
