#include "experiments/evidence/pairs.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/statistics/statistics.h"

namespace assay {

namespace {

struct RoundVisits {
  const VisitRow* a = nullptr;
  const VisitRow* b = nullptr;
};

std::map<int, RoundVisits>
rounds_of(const std::vector<const VisitRow*>& visits, std::int64_t a, std::int64_t b) {
  std::map<int, RoundVisits> rounds;
  for (const VisitRow* visit : visits) {
    if (visit->warmup || visit->steps <= 0 || visit->wall_ns <= 0) continue;
    if (visit->variant == a) rounds[visit->round].a = visit;
    if (visit->variant == b) rounds[visit->round].b = visit;
  }
  std::erase_if(rounds, [](const auto& item) { return !item.second.a || !item.second.b; });
  return rounds;
}

double per_unit(const VisitRow& visit) {
  return static_cast<double>(visit.wall_ns) / visit.steps;
}

std::optional<double> device_per_unit(const VisitRow& visit) {
  if (!visit.device_ns || *visit.device_ns <= 0) return std::nullopt;
  return static_cast<double>(*visit.device_ns) / visit.steps;
}

std::string excluded_why(const RoundVisits& round, const DisturbanceLimits& limits) {
  const std::string a = disturbance(round.a->covariates, limits);
  const std::string b = disturbance(round.b->covariates, limits);
  if (a.empty() && b.empty()) return "";
  if (b.empty()) return "A: " + a;
  if (a.empty()) return "B: " + b;
  return "A: " + a + "; B: " + b;
}

Pair make_pair(int round, const RoundVisits& visits, const DisturbanceLimits& limits) {
  Pair pair;
  pair.round = round;
  pair.a_ns = per_unit(*visits.a);
  pair.b_ns = per_unit(*visits.b);
  pair.log_ratio = std::log(pair.b_ns / pair.a_ns);
  pair.a_device_ns = device_per_unit(*visits.a);
  pair.b_device_ns = device_per_unit(*visits.b);
  pair.b_second = visits.a->position < visits.b->position;
  pair.excluded = excluded_why(visits, limits);
  return pair;
}

std::string work_mismatch(const LaunchRow& launch, int round, const RoundVisits& visits) {
  const auto differ = [&](const char* what, std::int64_t a, std::int64_t b) {
    return fmt::format("launch {} round {}: {} {} against {}", launch.index, round, what, a, b);
  };
  if (visits.a->steps != visits.b->steps) return differ("units", visits.a->steps, visits.b->steps);
  if (visits.a->tokens != visits.b->tokens)
    return differ("tokens", visits.a->tokens, visits.b->tokens);
  return "";
}

void add_round(PairSet& set,
               LaunchPairs& into,
               const LaunchRow& launch,
               int round,
               const RoundVisits& visits,
               const DisturbanceLimits& limits) {
  if (set.work_mismatch.empty()) set.work_mismatch = work_mismatch(launch, round, visits);
  set.skipped_a += visits.a->skipped_steps;
  set.skipped_b += visits.b->skipped_steps;
  set.disturbed_a += disturbance(visits.a->covariates, limits).empty() ? 0 : 1;
  set.disturbed_b += disturbance(visits.b->covariates, limits).empty() ? 0 : 1;
  into.pairs.push_back(make_pair(round, visits, limits));
  ++set.pairs;
  if (!into.pairs.back().excluded.empty()) ++set.excluded;
}

void judge_contention(PairSet& set, const DisturbanceLimits& limits) {
  if (set.pairs == 0) return;
  set.imbalance_p = fisher_exact_p(
      set.disturbed_a, set.pairs - set.disturbed_a, set.disturbed_b, set.pairs - set.disturbed_b);
  const double share = static_cast<double>(set.excluded) / static_cast<double>(set.pairs);
  if (share > limits.pairs)
    set.contended =
        fmt::format("{} of {} pairs disturbed by other work on the machine (limit {:.0f} %)",
                    set.excluded,
                    set.pairs,
                    100 * limits.pairs);
  else if (set.imbalance_p < kArmImbalanceAlpha)
    set.contended =
        fmt::format("disturbed visits differ by arm: {} of A, {} of B in {} pairs (p = {:.2g})",
                    set.disturbed_a,
                    set.disturbed_b,
                    set.pairs,
                    set.imbalance_p);
}

} // namespace

std::vector<double> LaunchPairs::log_ratios(bool with_excluded) const {
  std::vector<double> result;
  result.reserve(pairs.size());
  for (const Pair& pair : pairs)
    if (with_excluded || pair.excluded.empty()) result.push_back(pair.log_ratio);
  return result;
}

VisitIndex::VisitIndex(const LedgerData& data) {
  for (const VisitRow& visit : data.visits) visits_[visit.launch].push_back(&visit);
}

const std::vector<const VisitRow*>& VisitIndex::of_launch(std::int64_t launch) const {
  static const std::vector<const VisitRow*> kNone;
  const auto found = visits_.find(launch);
  return found == visits_.end() ? kNone : found->second;
}

std::vector<const VariantRow*> variants_of(const LedgerData& data, std::int64_t cell, Role role) {
  std::vector<const VariantRow*> result;
  for (const VariantRow& variant : data.variants)
    if (variant.cell == cell && variant.role == role) result.push_back(&variant);
  return result;
}

bool is_counted(const LaunchRow& launch) {
  return launch.kind == LaunchKind::Timed &&
         (launch.state == LaunchState::Complete || launch.state == LaunchState::Partial);
}

PairSet collect_pairs(const LedgerData& data,
                      const VisitIndex& visits,
                      const VariantRow& a,
                      const VariantRow& b) {
  PairSet set;
  for (const LaunchRow& launch : data.launches) {
    if (launch.cell != a.cell || !is_counted(launch) || data.superseded(launch.id)) continue;
    const auto rounds = rounds_of(visits.of_launch(launch.id), a.id, b.id);
    if (rounds.empty() ||
        2 * rounds.size() < static_cast<std::size_t>(std::max(0, launch.rounds_planned)))
      continue;
    LaunchPairs pairs{launch.id, launch.index, launch.steady, {}};
    for (const auto& [round, both] : rounds)
      add_round(set, pairs, launch, round, both, data.spec.limits);
    set.launches.push_back(std::move(pairs));
  }
  judge_contention(set, data.spec.limits);
  return set;
}

} // namespace assay
