#include "experiments/analysis/judge.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <set>

#include "experiments/analysis/explanations.h"
#include "experiments/analysis/wording.h"

namespace assay {

namespace {

std::size_t launches_of(const Comparison& comparison) {
  return comparison.effect ? comparison.effect->launches.size() : 0;
}

std::string too_few_launches(const Comparison& comparison) {
  const std::size_t launches = launches_of(comparison);
  const std::string count =
      fmt::format("{} timed launch{}; a verdict needs {}, FASTER or SLOWER {}",
                  launches,
                  launches == 1 ? "" : "es",
                  kProvisionalLaunches,
                  kFullLaunches);
  const std::string& retired = comparison.evidence.retired;
  return retired.empty() ? count : fmt::format("retired: {}; {}", retired, count);
}

void judge_validity(Comparison& comparison, const CellContext& context) {
  Verdict& verdict = comparison.verdict;
  const Evidence& evidence = comparison.evidence;
  const auto set = [&](Validity validity, const Reason& reason) {
    verdict.validity = validity;
    verdict.reasons.push_back(reason);
  };
  if (evidence.validity != Validity::Ok && evidence.validity != Validity::Incomplete)
    return set(evidence.validity, evidence.reason);
  if (context.invalid) return set(Validity::Invalid, *context.invalid);
  if (evidence.validity == Validity::Incomplete) return set(Validity::Incomplete, evidence.reason);
  if (launches_of(comparison) < static_cast<std::size_t>(kProvisionalLaunches) &&
      !comparison.pairs.contended)
    return set(Validity::Incomplete, {ReasonCode::TooFewLaunches, too_few_launches(comparison)});
  if (comparison.pairs.contended) {
    const bool by_others = comparison.pairs.contended->code == ReasonCode::PairsDisturbed;
    if (by_others && context.redo) verdict.reasons.push_back(*context.redo);
    return set(Validity::Contended, *comparison.pairs.contended);
  }
  verdict.validity = Validity::Ok;
}

bool has_full_launches(const Effect& effect) {
  return effect.launches.size() >= static_cast<std::size_t>(kFullLaunches);
}

// Tokens per second are total time.
bool total_time_agrees(const Effect& effect) {
  return effect.theta.value * effect.throughput.value > 0;
}

// Why the interval of an effect decides nothing, and what would.
std::string inconclusive_text(const Effect& effect, double sesoi) {
  std::string text = fmt::format("undecided: the interval {} includes 0 and exceeds +-{}",
                                 interval_text(effect.theta.judged),
                                 share_text(sesoi));
  if (!effect.mde)
    return text +
           fmt::format(
               "; how small an effect the run can detect (MDE) is not known from {}: {} are needed",
               launch_count_text(effect.launches.size()),
               kFullLaunches);
  text += fmt::format("; this run can detect {}", share_text(std::expm1(*effect.mde)));
  const auto& needed = effect.launches_for_sesoi;
  if (needed && *needed > static_cast<int>(effect.launches.size()))
    text += fmt::format("; detecting {} needs about {} launches", share_text(sesoi), *needed);
  return text;
}

Reason total_time_disagrees(const Effect& effect) {
  return {ReasonCode::TotalTimeDisagrees,
          fmt::format("the median step and total time disagree{}: by total time {}",
                      effect.tail ? ", since rare long steps turn the sign" : "",
                      judged_text(effect.throughput))};
}

// The speed, and every reason against a greater claim.
void decide_speed(Comparison& comparison, double sesoi) {
  Verdict& verdict = comparison.verdict;
  const Effect& effect = *comparison.effect;
  verdict.speed = decided_speed(effect, sesoi);
  std::ranges::move(why_undecided(effect, sesoi), std::back_inserter(verdict.reasons));
  if (verdict.speed == Speed::NoEffect)
    verdict.reasons.push_back(
        {ReasonCode::WithinSesoi,
         fmt::format("the whole interval is within +-{}", share_text(sesoi))});
}

void explain_work(Comparison& comparison, double sesoi) {
  Verdict& verdict = comparison.verdict;
  const Speed by_interval = judge_speed(comparison.effect->theta, sesoi);
  const bool differs = by_interval == Speed::Faster || by_interval == Speed::Slower;
  if (comparison.evidence.same_work && !differs) {
    verdict.tags.push_back(Tag::NoOp);
    verdict.reasons.push_back({ReasonCode::SameWork, comparison.evidence.same_work_proof});
  } else if (comparison.evidence.same_work) {
    verdict.reasons.push_back(
        {ReasonCode::SameWorkOtherTime,
         "both sides ran the same operators and copies; the difference is in their duration or in "
         "the gaps between them"});
  }
}

void tag_precision(Comparison& comparison) {
  Verdict& verdict = comparison.verdict;
  if (!has_full_launches(*comparison.effect)) {
    verdict.tags.push_back(Tag::Provisional);
    if (verdict.speed == Speed::NoEffect)
      verdict.reasons.push_back({ReasonCode::Provisional,
                                 fmt::format("{} launches: provisional below {}",
                                             launches_of(comparison),
                                             kFullLaunches)});
  }
  if (comparison.effect->tail) {
    verdict.tags.push_back(Tag::Tail);
    const bool said = std::ranges::any_of(verdict.reasons, [](const Reason& reason) {
      return reason.code == ReasonCode::TotalTimeDisagrees;
    });
    if (!said)
      verdict.reasons.push_back({ReasonCode::Tail,
                                 fmt::format("rare long steps turn the sign: by total time {}",
                                             effect_text(comparison.effect->throughput))});
  }
  const auto& launches = comparison.pairs.launches;
  const auto unsteady =
      std::count_if(launches.begin(), launches.end(), [](const LaunchPairs& launch) {
        return launch.counts() && !launch.steady;
      });
  if (unsteady > 0) {
    verdict.tags.push_back(Tag::NotSteady);
    verdict.reasons.push_back(
        {ReasonCode::NotSteady,
         fmt::format("times were not steady after the warm-up in {} of {} launches",
                     unsteady,
                     launches_of(comparison))});
  }
}

// A reader of the table sees an effect beside one of the other sign.
void note_turned_sign(Comparison& comparison) {
  const auto &effect = comparison.effect, &all = comparison.effect_all;
  if (!effect || !all || effect->theta.value * all->theta.value >= 0) return;
  comparison.verdict.reasons.push_back(
      {ReasonCode::ExclusionTurnsSign,
       fmt::format("without the disturbed pairs the effect has the other sign: {}, and {} with "
                   "all pairs",
                   effect_text(effect->theta),
                   effect_text(all->theta))});
}

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
  if (is_memory(metric)) {
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
  result.provisional = !repeats && static_cast<int>(measured->by_launch.size()) < full;
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

// Why the rule decides nothing: what the interval contains beside the claim, or instead of it.
std::string why_claim_undecided(ClaimMetric metric,
                                const Interval& claimed,
                                const Interval& measured,
                                double smallest) {
  const double least = least_claimed(claimed, smallest);
  const std::string claim = least == claimed.lower ? claimed_range_text(metric, claimed)
                                                   : gain_text(metric, least) + " or more";
  if (measured.upper < least)
    return fmt::format(
        "the judged interval of the gain, {}, excludes the claimed {}, but decides neither for a "
        "smaller gain nor for none",
        gains_text(metric, measured),
        claim);
  return fmt::format("the judged interval of the gain, {}, reaches the claimed {} and also "
                     "contains gains of {} or less",
                     gains_text(metric, measured),
                     claim,
                     gain_text(metric, std::min(least, smallest)));
}

// Why a claim of time stays undecided although the rule decides it: the same two rules as for
// FASTER and SLOWER.
Reason why_time_decides_nothing(const ClaimResult& result, const Comparison& comparison) {
  const auto metric = claim_metric(result.claim.metric);
  if (!is_time(*metric) || result.state == ClaimState::Undecided) return {};
  if (launches_of(comparison) < static_cast<std::size_t>(kFullLaunches))
    return {ReasonCode::Provisional,
            fmt::format("{} launches, which would say {}; a claim of time needs {}",
                        launches_of(comparison),
                        to_string(result.state),
                        kFullLaunches)};
  const double by_total = gain_of(*metric, comparison.effect->throughput.value);
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

Speed judge_speed(const Estimate& theta, double sesoi) {
  if (!theta.judged) return Speed::Inconclusive;
  if (std::expm1(theta.judged->lower) > -sesoi && std::expm1(theta.judged->upper) < sesoi)
    return Speed::NoEffect;
  if (theta.judged->upper < 0) return Speed::Faster;
  if (theta.judged->lower > 0) return Speed::Slower;
  return Speed::Inconclusive;
}

Speed decided_speed(const Effect& effect, double sesoi) {
  return why_undecided(effect, sesoi).empty() ? judge_speed(effect.theta, sesoi)
                                              : Speed::Inconclusive;
}

std::vector<Reason> why_undecided(const Effect& effect, double sesoi) {
  const Speed found = judge_speed(effect.theta, sesoi);
  if (found == Speed::NoEffect) return {};
  if (found == Speed::Inconclusive)
    return {{ReasonCode::IntervalHoldsZero, inconclusive_text(effect, sesoi)}};
  std::vector<Reason> reasons;
  if (!has_full_launches(effect))
    reasons.push_back({ReasonCode::Provisional,
                       fmt::format("the interval excludes 0 in {}; a decision needs {}",
                                   launch_count_text(effect.launches.size()),
                                   kFullLaunches)});
  if (!total_time_agrees(effect)) reasons.push_back(total_time_disagrees(effect));
  return reasons;
}

void judge(Comparison& comparison, const CellContext& context) {
  Verdict& verdict = comparison.verdict;
  verdict.quality = comparison.evidence.quality;
  judge_validity(comparison, context);
  if (verdict.validity == Validity::Ok) {
    decide_speed(comparison, context.sesoi);
    explain_work(comparison, context.sesoi);
    tag_precision(comparison);
  }
  if (verdict.quality == Quality::Unknown || verdict.quality == Quality::Harmed)
    verdict.reasons.push_back(comparison.evidence.quality_reason);
  if (verdict.quality == Quality::Harmed) // the harm leads
    std::rotate(verdict.reasons.begin(), verdict.reasons.end() - 1, verdict.reasons.end());
  if (comparison.pairs.skipped_a + comparison.pairs.skipped_b > 0)
    verdict.reasons.push_back(
        {ReasonCode::SkippedSteps,
         fmt::format("the loss scaler skipped {} steps of the baseline and {} of the candidate",
                     comparison.pairs.skipped_a,
                     comparison.pairs.skipped_b)});
  note_turned_sign(comparison);
}

ClaimResult judge_claim(const ClaimRow& claim, const CellView& cell, const Comparison& comparison) {
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
  } else if (const std::string unmet = unmet_conditions(claim, *cell.cell, cell.gpu);
             !unmet.empty()) {
    result.state = ClaimState::ConditionsNotMet;
    result.reason = {ReasonCode::ConditionsNotMet, unmet};
  } else if (Reason why = why_not_judged(comparison, *metric); !why.empty()) {
    result.state = ClaimState::Undecided;
    result.reason = std::move(why);
  } else if (Reason none = why_no_interval(result, *metric, comparison); !none.empty()) {
    result.state = ClaimState::Undecided;
    result.reason = std::move(none);
  } else {
    const Interval claimed{claim.lo, claim.hi};
    const double smallest = smallest_gain(*metric, claim, *cell.cell, comparison, sesoi);
    const ClaimDecision decision = decide_claim(claimed, *result.gain_judged, smallest);
    result.state = decision.state;
    result.exceeds = decision.exceeds;
    if (decision.state == ClaimState::Undecided)
      result.reason = {ReasonCode::IntervalUndecided,
                       why_claim_undecided(*metric, claimed, *result.gain_judged, smallest)};
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
