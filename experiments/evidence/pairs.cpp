#include "experiments/evidence/pairs.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "core/ledger/launch_rules.h"
#include "core/statistics/statistics.h"
#include "experiments/evidence/effect.h"

namespace assay {

namespace {

struct RoundVisits {
  const VisitRow* a = nullptr;
  const VisitRow* b = nullptr;
};

std::map<int, RoundVisits>
rounds_of(const CellView& cell, const LaunchRow& launch, const VariantRow& a, const VariantRow& b) {
  std::map<int, RoundVisits> rounds;
  for (const VisitRow* visit : cell.visits(launch.id, a.id))
    if (!visit->warmup) rounds[visit->round].a = visit;
  for (const VisitRow* visit : cell.visits(launch.id, b.id))
    if (!visit->warmup) rounds[visit->round].b = visit;
  std::erase_if(rounds, [](const auto& item) { return !item.second.a || !item.second.b; });
  return rounds;
}

double per_unit(const CellRow& cell, const VisitRow& visit) {
  return static_cast<double>(visit.wall_ns) / units_of(cell, visit);
}

std::optional<double> device_per_unit(const CellRow& cell, const VisitRow& visit) {
  if (!visit.device_ns || *visit.device_ns <= 0) return std::nullopt;
  return static_cast<double>(*visit.device_ns) / units_of(cell, visit);
}

std::string excluded_why(const RoundVisits& round, const DisturbanceLimits& limits) {
  const std::string a = disturbance(round.a->covariates, limits);
  const std::string b = disturbance(round.b->covariates, limits);
  if (a.empty() && b.empty()) return "";
  if (b.empty()) return "baseline: " + a;
  if (a.empty()) return "candidate: " + b;
  return "baseline: " + a + "; candidate: " + b;
}

Pair make_pair(const CellView& cell, int round, const RoundVisits& visits) {
  Pair pair;
  pair.round = round;
  pair.a_ns = per_unit(*cell.cell, *visits.a);
  pair.b_ns = per_unit(*cell.cell, *visits.b);
  pair.log_ratio = std::log(pair.b_ns / pair.a_ns);
  pair.a_device_ns = device_per_unit(*cell.cell, *visits.a);
  pair.b_device_ns = device_per_unit(*cell.cell, *visits.b);
  pair.a_delay = visits.a->covariates.run_delay_share;
  pair.b_delay = visits.b->covariates.run_delay_share;
  pair.candidate_second = visits.a->position < visits.b->position;
  pair.excluded = excluded_why(visits, cell.spec->limits);
  return pair;
}

std::string
work_mismatch(const CellRow& cell, const LaunchRow& launch, int round, const RoundVisits& visits) {
  if (by_token(cell)) return "";
  const auto differ = [&](const char* what, std::int64_t a, std::int64_t b) {
    return fmt::format(
        "timed launch {}, round {}: {} {} against {}", launch.index, round, what, a, b);
  };
  if (visits.a->steps != visits.b->steps) return differ("units", visits.a->steps, visits.b->steps);
  if (visits.a->tokens != visits.b->tokens)
    return differ("tokens", visits.a->tokens, visits.b->tokens);
  return "";
}

// What a launch that counts adds to the set's figures.
void count_round(PairSet& set, const RoundVisits& visits, const DisturbanceLimits& limits) {
  set.skipped_a += visits.a->skipped_steps;
  set.skipped_b += visits.b->skipped_steps;
  set.disturbed_a += disturbance(visits.a->covariates, limits).empty() ? 0 : 1;
  set.disturbed_b += disturbance(visits.b->covariates, limits).empty() ? 0 : 1;
  ++set.pairs;
  if (!excluded_why(visits, limits).empty()) ++set.excluded;
}

// Exclusion looks at covariates alone, so a level that delays its own threads loses the pairs that
// show what it costs. Then the two sides are disturbed unequally.
void compare_arms(PairSet& set) {
  set.imbalance_p = fisher_exact_p(
      set.disturbed_a, set.pairs - set.disturbed_a, set.disturbed_b, set.pairs - set.disturbed_b);
  std::vector<double> gaps;
  for (const LaunchPairs& launch : set.launches) {
    if (!launch.counts()) continue;
    for (const Pair& pair : launch.pairs)
      if (pair.a_delay && pair.b_delay) gaps.push_back(*pair.b_delay - *pair.a_delay);
  }
  if (gaps.empty()) return;
  set.delay_gap = mean(gaps);
  set.delay_p = t_test_p(gaps);
}

bool arms_differ(const PairSet& set) {
  if (set.excluded == 0) return false; // every pair counts, whatever disturbed it
  return set.imbalance_p < kArmImbalanceAlpha ||
         (set.delay_p && *set.delay_p < kArmImbalanceAlpha && std::abs(*set.delay_gap) > kDelayGap);
}

std::string arms_text(const PairSet& set) {
  std::string text =
      fmt::format("the two sides are disturbed unequally: visits of the baseline {}, of the "
                  "candidate {}, in {} pairs (p = {:.2g})",
                  set.disturbed_a,
                  set.disturbed_b,
                  set.pairs,
                  set.imbalance_p);
  if (set.delay_p)
    text += fmt::format(
        "; the candidate's threads wait for a core {:.2f} % of a visit's time {} (p = {:.2g})",
        100 * std::abs(*set.delay_gap),
        *set.delay_gap > 0 ? "more" : "less",
        *set.delay_p);
  return text + ". A level may disturb itself, and excluded pairs would hide it";
}

void judge_contention(PairSet& set, const DisturbanceLimits& limits) {
  if (set.launches.empty()) return;
  const std::size_t left_out = set.launches.size() - set.counted_launches();
  if (set.pairs > 0) compare_arms(set);
  if (std::cmp_less(set.counted_launches(), kProvisionalLaunches) &&
      std::cmp_greater_equal(set.launches.size(), kProvisionalLaunches))
    set.contended = {ReasonCode::PairsDisturbed,
                     fmt::format("other work on the machine disturbed more than half of the pairs "
                                 "in {} of {} launches",
                                 left_out,
                                 set.launches.size())};
  else if (beyond_limit(set.excluded, set.pairs, limits))
    set.contended = {
        ReasonCode::PairsDisturbed,
        fmt::format("{} of {} pairs disturbed by other work on the machine (limit {:.0f} %)",
                    set.excluded,
                    set.pairs,
                    100 * limits.pairs)};
  else if (arms_differ(set))
    set.contended = {ReasonCode::ArmsDisturbed, arms_text(set)};
}

} // namespace

std::vector<double> LaunchPairs::log_ratios(bool with_excluded) const {
  std::vector<double> result;
  result.reserve(pairs.size());
  for (const Pair& pair : pairs)
    if (with_excluded || pair.excluded.empty()) result.push_back(pair.log_ratio);
  return result;
}

bool LaunchPairs::counts() const {
  const auto left = static_cast<std::size_t>(std::count_if(
      pairs.begin(), pairs.end(), [](const Pair& pair) { return pair.excluded.empty(); }));
  return left > 0 && 2 * left >= pairs.size();
}

std::int64_t PairSet::all_pairs() const {
  std::int64_t count = 0;
  for (const LaunchPairs& launch : launches)
    count += static_cast<std::int64_t>(launch.pairs.size());
  return count;
}

std::int64_t PairSet::all_excluded() const {
  std::int64_t count = 0;
  for (const LaunchPairs& launch : launches)
    for (const Pair& pair : launch.pairs) count += pair.excluded.empty() ? 0 : 1;
  return count;
}

std::size_t PairSet::counted_launches() const {
  return static_cast<std::size_t>(std::count_if(
      launches.begin(), launches.end(), [](const LaunchPairs& launch) { return launch.counts(); }));
}

std::string excluded_text(const PairSet& pairs) {
  const std::size_t left_out = pairs.launches.size() - pairs.counted_launches();
  std::string text;
  if (pairs.excluded > 0)
    text = fmt::format("{} of {} pairs {} excluded",
                       pairs.excluded,
                       pairs.pairs,
                       pairs.excluded == 1 ? "is" : "are");
  if (left_out > 0)
    text += fmt::format("{}{} of {} launch{} {} left out",
                        text.empty() ? "" : " and ",
                        left_out,
                        pairs.launches.size(),
                        pairs.launches.size() == 1 ? "" : "es",
                        left_out == 1 ? "is" : "are");
  return text;
}

PairSet collect_pairs(const CellView& cell, const VariantRow& a, const VariantRow& b) {
  const DisturbanceLimits& limits = cell.spec->limits;
  PairSet set;
  for (const LaunchRow* launch : cell.counted) {
    const auto rounds = rounds_of(cell, *launch, a, b);
    if (!enough_rounds(static_cast<int>(rounds.size()), launch->rounds_planned)) continue;
    LaunchPairs pairs{launch->id, launch->index, launch->steady, {}};
    const int first = cell.first_counted_round(launch->id);
    for (const auto& [stored, both] : rounds) {
      const int round = stored - first + 1;
      if (set.work_mismatch.empty())
        set.work_mismatch = work_mismatch(*cell.cell, *launch, round, both);
      pairs.pairs.push_back(make_pair(cell, round, both));
    }
    if (pairs.counts())
      for (const auto& [round, both] : rounds) count_round(set, both, limits);
    set.launches.push_back(std::move(pairs));
  }
  judge_contention(set, limits);
  return set;
}

} // namespace assay
