// One published claim against the comparison that tests it.
#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "experiments/analysis/explanations.h"
#include "experiments/analysis/judging/judge.h"
#include "experiments/analysis/wording.h"

namespace assay {

namespace {

std::optional<double>
scale_of(ClaimMetric metric, const CellRow& cell, const Comparison& comparison) {
  return gain_scale(metric,
                    cell,
                    comparison.effect ? comparison.effect->a_ns : 0,
                    comparison.memory ? comparison.memory->a_bytes : 0);
}

// Time, memory or final loss, in the claim's metric, as far as it is known.
void measure_claim(ClaimResult& result,
                   ClaimMetric metric,
                   const CellView& cell,
                   const Comparison& comparison) {
  const bool of_unit =
      metric == ClaimMetric::UnitTime || metric == ClaimMetric::SecondsPerParameter;
  const Estimate* measured = nullptr;
  std::optional<Estimate> of_phases;
  if (is_memory(metric) && comparison.memory && !result.claim.of.empty()) {
    of_phases = effect_in_phases(*comparison.memory, result.claim.of);
    if (of_phases) measured = &*of_phases;
  } else if (is_memory(metric)) {
    if (comparison.memory) measured = &comparison.memory->log_ratio;
  } else if (metric == ClaimMetric::UntrainedLoss) {
    if (comparison.loss && comparison.loss->a_loss) measured = &*comparison.loss->a_loss;
  } else if (metric == ClaimMetric::FinalLoss) {
    if (comparison.loss && comparison.loss->log_ratio) measured = &*comparison.loss->log_ratio;
  } else if (by_token(*cell.cell) && metric != ClaimMetric::Throughput) {
    return; // a token's time is neither a step's nor an evaluation's
  } else if (cell.cell->unit == "evaluation" && !of_unit) {
    result.end_to_end = true;
    if (comparison.end_to_end) measured = &comparison.end_to_end->log_ratio;
  } else if (comparison.effect) {
    measured = &comparison.effect->theta;
  }
  const std::optional<double> scale = scale_of(metric, *cell.cell, comparison);
  if (!measured || !scale) return;
  const auto scaled = [&](const Interval& theta) {
    const Interval gain = gain_of(metric, theta);
    return Interval{*scale * gain.lower, *scale * gain.upper};
  };
  result.gain = *scale * gain_of(metric, measured->value);
  if (measured->at_95) result.gain_95 = scaled(*measured->at_95);
  if (measured->judged) result.gain_judged = scaled(*measured->judged);
  const bool repeats = is_memory(metric) && comparison.memory->exact;
  const int full = is_memory(metric) ? kProvisionalLaunches
                   : is_loss(metric) ? static_cast<int>(kFewestSeeds)
                                     : kFullLaunches;
  const auto launches = static_cast<int>(measured->by_launch.size());
  result.provisional = !repeats && launches < full;
  if (result.provisional) // unless there is more to say
    result.reason = {ReasonCode::Provisional,
                     fmt::format("{} of the {} {} that a final state needs",
                                 launches,
                                 full,
                                 is_loss(metric) ? "seeds" : "launches")};
}

// Memory and losses do not depend on times, so only the parity side of validity can spoil them.
Reason why_not_judged(const Comparison& comparison, ClaimMetric metric) {
  const Validity validity = comparison.verdict.validity;
  const bool time_only =
      validity == Validity::Contended || validity == Validity::Invalid ||
      (validity == Validity::Incomplete && comparison.evidence.validity == Validity::Ok);
  if (validity == Validity::Ok || (!is_time(metric) && time_only)) return {};
  if (validity == Validity::Contended && comparison.pairs.contended)
    return *comparison.pairs.contended;      // without what to do about it
  return comparison.verdict.reasons.front(); // a validity other than OK always has one
}

// Why a measured claim has no interval that may be read.
Reason
why_no_interval(const ClaimResult& result, ClaimMetric metric, const Comparison& comparison) {
  if (is_loss(metric)) {
    const bool enough = comparison.loss->result.seeds.size() >= kFewestSeeds;
    if (enough && result.gain_judged) return {};
    return {ReasonCode::LossTest, loss_text(*comparison.loss)};
  }
  if (result.gain_judged) return {};
  if (!result.gain && comparison.memory && !result.claim.of.empty())
    return {ReasonCode::NotMeasured, "the ledger does not say what the bytes at the peak are"};
  if (!result.gain) return {ReasonCode::NotMeasured, "not measured yet"};
  return {ReasonCode::NoInterval,
          is_memory(metric) ? "one memory launch without a control gives no interval"
                            : "one launch gives no interval"};
}

// The smallest gain of interest. Of a loss it is the margin that counts as no difference; a loss
// that is claimed not to change is tested by its figure alone.
double smallest_gain(ClaimMetric metric,
                     const ClaimRow& claim,
                     const CellRow& cell,
                     const Comparison& comparison,
                     double sesoi) {
  if (metric == ClaimMetric::UntrainedLoss) return claim.lo;
  if (metric != ClaimMetric::FinalLoss)
    return sesoi_gain(metric, sesoi) * *scale_of(metric, cell, comparison);
  const LossQuality& loss = comparison.loss->result;
  std::vector<double> of_a;
  for (const SeedLoss& seed : loss.seeds) of_a.push_back(seed.a);
  return loss.margin / mean(of_a);
}

// What the interval contains, or excludes, of the claim: why it has this state.
std::string interval_against_claim(const ClaimDecision& decision,
                                   ClaimMetric metric,
                                   const Interval& claimed,
                                   const Interval& measured,
                                   double smallest) {
  const double least = least_claimed(claimed, smallest);
  const std::string claim = least == claimed.lower ? claimed_range_text(metric, claimed)
                                                   : gain_text(metric, least) + " or more";
  const std::string edge = gain_text(metric, std::min(least, smallest));
  const auto interval = [&](const std::string& what) {
    return fmt::format(
        "the judged interval of the gain, {}, {}", gains_text(metric, measured), what);
  };
  switch (decision.state) {
  case ClaimState::Opposite:
    return interval(fmt::format("is below {}", gain_text(metric, -smallest)));
  case ClaimState::Refuted:
    return interval(fmt::format("excludes gains of {} or more", edge));
  case ClaimState::Shortfall:
    return interval(fmt::format("shows a gain, but excludes the claimed {}", claim));
  case ClaimState::Consistent:
    return interval(fmt::format("reaches the claimed {} and also contains smaller gains", claim));
  case ClaimState::Confirmed:
    return interval(fmt::format("is above the claimed {}", claim));
  default:
    break;
  }
  if (measured.upper < least)
    return interval(fmt::format("excludes the claimed {}, but decides neither for a smaller gain "
                                "nor for none",
                                claim));
  return interval(
      fmt::format("reaches the claimed {} and also contains gains of {} or less", claim, edge));
}

// Nothing is to be said of a claim that is simply confirmed.
Reason why_decided(const ClaimDecision& decision, const std::string& interval) {
  if (decision.state == ClaimState::Undecided) return {ReasonCode::IntervalUndecided, interval};
  if (decision.state == ClaimState::Confirmed && !decision.exceeds) return {};
  return {ReasonCode::IntervalDecides, interval};
}

// Why a claim of time stays undecided although the rule decides it: the same two rules as for
// FASTER and SLOWER.
Reason why_time_decides_nothing(const ClaimResult& result, const Comparison& comparison) {
  const auto metric = claim_metric(result.claim.metric);
  if (!is_time(*metric) || result.state == ClaimState::Undecided) return {};
  const std::size_t launches = comparison.effect->launches.size();
  if (launches < static_cast<std::size_t>(kFullLaunches))
    return {ReasonCode::Provisional,
            fmt::format("{} launches, which would say {}; a claim of time needs {}",
                        launches,
                        to_string(result.state),
                        kFullLaunches)};
  const double by_total = gain_of(*metric, comparison.effect->total_time.value);
  const Interval& gain = *result.gain_judged;
  if ((gain.lower > 0 && by_total <= 0) || (gain.upper < 0 && by_total >= 0))
    return total_time_disagrees(*comparison.effect);
  return {};
}

void adopt_claim(Verdict& verdict, const ClaimResult& result, bool first) {
  constexpr std::array kWorstFirst{ClaimState::Opposite,
                                   ClaimState::Refuted,
                                   ClaimState::Shortfall,
                                   ClaimState::Consistent,
                                   ClaimState::Confirmed};
  const auto rank = [&](ClaimState state) {
    return std::find(kWorstFirst.begin(), kWorstFirst.end(), state) - kWorstFirst.begin();
  };
  if (!first && rank(result.state) >= rank(verdict.claim)) return;
  verdict.claim = result.state;
  const auto metric = claim_metric(result.claim.metric);
  const bool was_judged = rank(result.state) < std::ssize(kWorstFirst);
  verdict.claim_about = !was_judged          ? ""
                        : is_memory(*metric) ? "memory"
                        : is_loss(*metric)   ? "loss"
                                             : "";
  std::erase(verdict.tags, Tag::Exceeds);
  if (result.exceeds) verdict.tags.push_back(Tag::Exceeds);
}

} // namespace

ClaimResult judge_claim(const ClaimRow& claim,
                        const CellView& cell,
                        const Comparison& comparison,
                        double padding_share) {
  const double sesoi = cell.spec->sesoi;
  ClaimResult result;
  result.claim = claim;
  const auto metric = claim_metric(claim.metric);
  if (metric) measure_claim(result, *metric, cell, comparison);
  if (!claim.unmet.empty()) {
    result.reason = {ReasonCode::NotTestable, claim.unmet};
  } else if (claim.metric == kSetting) {
    result.reason = {ReasonCode::Setting, "a recommended setting: its source claims no gain"};
  } else if (!metric) {
    result.reason = {ReasonCode::UnknownMetric, fmt::format("'{}' is not measured", claim.metric)};
  } else if (is_loss(*metric) && !comparison.loss) {
    result.reason = {ReasonCode::NoLossLaunches, "no loss launches in this matrix"};
  } else if (!scale_of(*metric, *cell.cell, comparison)) {
    result.reason = {ReasonCode::UnknownModelSize,
                     "the size of the model is not known from the cell's configuration"};
  } else if (const std::string unmet = unmet_conditions(claim, comparison.a_config_json, cell.gpu);
             !unmet.empty()) {
    result.state = ClaimState::ConditionsNotMet;
    result.reason = {ReasonCode::ConditionsNotMet, unmet};
  } else if (Reason why = why_not_judged(comparison, *metric); !why.empty()) {
    result.state = ClaimState::Undecided;
    result.reason = std::move(why);
  } else if (Reason none = why_no_interval(result, *metric, comparison); !none.empty()) {
    result.state = ClaimState::Undecided;
    result.reason = std::move(none);
  } else if (const std::string other = unmet_padding(claim, padding_share); !other.empty()) {
    result.state = ClaimState::ConditionsNotMet;
    result.reason = {ReasonCode::ConditionsNotMet, other};
  } else {
    const Interval claimed{claim.lo, claim.hi};
    const double smallest = smallest_gain(*metric, claim, *cell.cell, comparison, sesoi);
    const ClaimDecision decision = decide_claim(claimed, *result.gain_judged, smallest);
    result.state = decision.state;
    result.exceeds = decision.exceeds;
    if (Reason shown = why_decided(
            decision,
            interval_against_claim(decision, *metric, claimed, *result.gain_judged, smallest));
        !shown.empty())
      result.reason = std::move(shown);
    if (Reason open = why_time_decides_nothing(result, comparison); !open.empty()) {
      result.state = ClaimState::Undecided;
      result.exceeds = false;
      result.reason = std::move(open);
    }
    apply_stage_clause(result, comparison);
  }
  return result;
}

void adopt_claims(Report& report) {
  std::set<std::pair<std::size_t, std::size_t>> seen;
  for (const ClaimResult& result : report.claims)
    if (result.cell)
      adopt_claim(report.cells[*result.cell].comparisons[*result.comparison].verdict,
                  result,
                  seen.insert({*result.cell, *result.comparison}).second);
}

} // namespace assay
