#include "experiments/evidence/loss/loss_quality.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace assay {

namespace {

// Decimals that give half of the interval's width three digits; the mean and both ends have them.
int decimals_of(const Interval& interval) {
  constexpr int kFewest = 4, kMost = 12;
  const double half = (interval.upper - interval.lower) / 2;
  if (!(half > 0)) return kFewest;
  return std::clamp(2 - static_cast<int>(std::floor(std::log10(half))), kFewest, kMost);
}

std::string measured(const LossQuality& result) {
  const Interval& interval = result.test->interval;
  const int places = decimals_of(interval);
  const auto nats = [&](double value) {
    return fmt::format("{:+.{}f}", value == 0 ? 0.0 : value, places);
  };
  return fmt::format("difference {} [{}, {}] nats/token ({:.4g} % over {} seeds), margin {:.4g}",
                     nats(result.test->mean),
                     nats(interval.lower),
                     nats(interval.upper),
                     100 * result.test->level(),
                     result.seeds.size(),
                     result.margin);
}

// The seeds whose loss is not finite on one side, the candidate's first: they decide before any
// test.
bool judge_finite(LossQuality& result) {
  for (const SeedLoss& seed : result.seeds)
    if (std::isfinite(seed.a) && !std::isfinite(seed.b)) {
      result.quality = Quality::Harmed;
      result.reason = fmt::format("seed {}: only the candidate's loss is not finite", seed.seed);
      return false;
    }
  for (const SeedLoss& seed : result.seeds)
    if (!std::isfinite(seed.a)) {
      result.reason = fmt::format(
          "seed {}: the baseline's loss is not finite, so there is nothing to compare with",
          seed.seed);
      return false;
    }
  return true;
}

// A seed that occurs twice would count as two independent pairs.
std::optional<std::uint64_t> repeated(const std::vector<SeedLoss>& seeds) {
  std::set<std::uint64_t> seen;
  for (const SeedLoss& seed : seeds)
    if (!seen.insert(seed.seed).second) return seed.seed;
  return std::nullopt;
}

std::vector<double> differences(const std::vector<SeedLoss>& seeds) {
  std::vector<double> values;
  for (const SeedLoss& seed : seeds) values.push_back(seed.b - seed.a);
  return values;
}

void judge_interval(LossQuality& result, LossRule rule) {
  const Interval& interval = result.test->interval;
  const bool not_worse = interval.upper < result.margin;
  const bool not_better = interval.lower > -result.margin || rule == LossRule::NonInferiority;
  result.reason = measured(result);
  if (not_worse && not_better) {
    result.quality = Quality::Equivalent;
  } else if (interval.lower >= result.margin) {
    result.quality = Quality::Harmed;
    result.reason += ": worse by at least the margin";
  } else if (interval.upper <= -result.margin) {
    result.reason += ": better by at least the margin, so not equivalent";
  } else {
    result.reason += ": the interval reaches beyond the margin";
    if (result.seeds_needed && static_cast<std::size_t>(*result.seeds_needed) > result.seeds.size())
      result.reason += fmt::format("; about {} seeds would decide", *result.seeds_needed);
  }
}

} // namespace

LossQuality judge_loss(std::vector<SeedLoss> seeds,
                       std::optional<double> margin,
                       LossRule rule,
                       double power,
                       double alpha) {
  LossQuality result;
  result.seeds = std::move(seeds);
  if (!judge_finite(result)) return result;
  if (!margin || !(*margin > 0)) {
    result.reason = "no margin is declared in the matrix, so no loss difference can be judged";
    return result;
  }
  if (const auto twice = repeated(result.seeds)) {
    result.reason = fmt::format("seed {} occurs twice; pairs must be independent", *twice);
    return result;
  }
  result.margin = *margin;
  const std::vector<double> values = differences(result.seeds);
  result.test = tost(values, *margin, alpha);
  if (result.test)
    result.seeds_needed = tost_pairs_needed(sample_sd(values), *margin, power, alpha);
  if (result.seeds.size() < kFewestSeeds) {
    result.reason = fmt::format("{} of at least {} seeds", result.seeds.size(), kFewestSeeds);
    if (result.test) result.reason += "; " + measured(result);
    return result;
  }
  judge_interval(result, rule);
  return result;
}

} // namespace assay
