// Reason: why a verdict or a quality is what it is. Programs compare the code; people read the
// text, which may change from version to version.
#pragma once

#include <string>
#include <string_view>

namespace assay {

enum class ReasonCode {
  None, // there is no reason: the text is empty
  // validity
  GateFailed,
  NotEngaged,
  UnequalWork,
  MixedBuilds,
  MixedThreads,
  ControlAlarm,
  NoParityLaunch,
  NoParityGate,
  TooFewLaunches,
  PairsDisturbed, // too many pairs are excluded
  ArmsDisturbed,  // the two sides are disturbed unequally: a level may do it to itself
  // speed
  WithinSesoi,
  IntervalHoldsZero,
  TotalTimeDisagrees, // the median and total time have different signs
  Provisional,        // fewer than 5 launches
  SameWork,
  SameWorkOtherTime,
  Tail,
  NotSteady,
  SkippedSteps,
  ExclusionTurnsSign, // the effect of all pairs has the other sign
  // quality
  GatesPassed,
  NoGate,
  ParityNotShown,
  NeedsLossTest, // the class asks for a loss experiment, and the plan has none
  TimedLossesDiffer,
  LossLost, // NaN or infinite in the candidate only
  TrainingParts,
  LossTest, // the text contains the loss test's own words (loss_text)
  // claims, beside the codes of the verdict that a claim waits for
  NotTestable, // the claims file gives the reason
  Setting,     // a recommended setting, without a gain
  NoCell,
  UnknownMetric,
  UnknownModelSize,
  NoLossLaunches,
  ConditionsNotMet,
  NotMeasured,
  NoInterval,
  IntervalUndecided,
  IntervalDecides,  // what it excludes, or contains, of the claim
  StagesNotChecked, // no trace shows where the gain is
  NoGainInStages,   // the traced steps show none
  GainElsewhere,    // too little of the gain is in the stages that the claim names
};

struct Reason {
  ReasonCode code{};
  std::string text;

  bool empty() const { return code == ReasonCode::None; }
};

// The constants of docs/report-schema.md: "gate_failed", "loss_test" …
std::string_view to_string(ReasonCode code);

} // namespace assay
