#include "experiments/analysis/judging/judge.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "experiments/analysis/wording.h"

namespace assay {

namespace {

std::size_t launches_of(const Comparison& comparison) {
  return comparison.effect ? comparison.effect->launches.size() : 0;
}

std::string too_few_launches(const Comparison& comparison) {
  const std::size_t launches = launches_of(comparison), measured = comparison.pairs.launches.size();
  const std::string count =
      fmt::format("{} usable timed launch{}{}; a verdict needs {}, FASTER or SLOWER {}",
                  launches,
                  launches == 1 ? "" : "es",
                  measured > launches ? fmt::format(" of {}", measured) : "",
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
  const auto least = static_cast<std::size_t>(kProvisionalLaunches);
  const bool disturbed = comparison.pairs.contended && comparison.pairs.launches.size() >= least;
  if (launches_of(comparison) < least && !disturbed)
    return set(Validity::Incomplete, {ReasonCode::TooFewLaunches, too_few_launches(comparison)});
  if (comparison.pairs.contended) {
    const bool by_others = comparison.pairs.contended->code == ReasonCode::PairsDisturbed;
    const std::optional<Reason>& next = by_others ? context.redo : context.redo_cell;
    if (next) verdict.reasons.push_back(*next);
    return set(Validity::Contended, *comparison.pairs.contended);
  }
  verdict.validity = Validity::Ok;
}

bool has_full_launches(const Effect& effect) {
  return effect.launches.size() >= static_cast<std::size_t>(kFullLaunches);
}

// Tokens per second are total time.
bool total_time_agrees(const Effect& effect) {
  return effect.theta.value * effect.total_time.value > 0;
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
                                             effect_text(comparison.effect->total_time))});
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
  if (effect.launches.size() < kProvisionalLaunches) return Speed::Inconclusive;
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

Reason total_time_disagrees(const Effect& effect) {
  return {ReasonCode::TotalTimeDisagrees,
          fmt::format("the median step and total time disagree{}: by total time {}",
                      effect.tail ? ", since rare long steps turn the sign" : "",
                      judged_text(effect.total_time))};
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

} // namespace assay
