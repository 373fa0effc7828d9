// Reason: why a verdict or a quality is what it is. Programs compare the code; people read the
// text, which may change from version to version.
#pragma once

#include <string>
#include <string_view>

namespace assay {

enum class ReasonCode {
  // validity
  GateFailed,
  NotEngaged,
  NotApplicable,
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
  TotalTimeDisagrees, // the median says one thing, total time does not
  Provisional,        // fewer than 5 launches
  SameWork,
  SameWorkOtherTime,
  Tail,
  NotSteady,
  SkippedSteps,
  // quality
  GatesPassed,
  NoGate,
  ParityNotShown,
  NeedsLossTest, // the class asks for a loss experiment, and the plan has none
  TimedLossesDiffer,
  LossLost, // NaN or infinite in B only
  TrainingParts,
  LossTest, // the text holds the loss test's own words (loss_text)
};

struct Reason {
  ReasonCode code{};
  std::string text;
};

// The constants of docs/report-schema.md: "gate_failed", "loss_test" …
std::string_view to_string(ReasonCode code);

} // namespace assay
