#include "experiments/evidence/reason.h"

namespace assay {

std::string_view to_string(ReasonCode code) {
  switch (code) {
  case ReasonCode::None:
    return "none";
  case ReasonCode::GateFailed:
    return "gate_failed";
  case ReasonCode::NotEngaged:
    return "not_engaged";
  case ReasonCode::UnequalWork:
    return "unequal_work";
  case ReasonCode::MixedBuilds:
    return "mixed_builds";
  case ReasonCode::MixedThreads:
    return "mixed_threads";
  case ReasonCode::ControlAlarm:
    return "control_alarm";
  case ReasonCode::NoParityLaunch:
    return "no_parity_launch";
  case ReasonCode::NoParityGate:
    return "no_parity_gate";
  case ReasonCode::TooFewLaunches:
    return "too_few_launches";
  case ReasonCode::PairsDisturbed:
    return "pairs_disturbed";
  case ReasonCode::ArmsDisturbed:
    return "arms_disturbed";
  case ReasonCode::WithinSesoi:
    return "within_sesoi";
  case ReasonCode::IntervalHoldsZero:
    return "interval_holds_zero";
  case ReasonCode::TotalTimeDisagrees:
    return "total_time_disagrees";
  case ReasonCode::Provisional:
    return "provisional";
  case ReasonCode::SameWork:
    return "same_work";
  case ReasonCode::SameWorkOtherTime:
    return "same_work_other_time";
  case ReasonCode::Tail:
    return "tail";
  case ReasonCode::NotSteady:
    return "not_steady";
  case ReasonCode::SkippedSteps:
    return "skipped_steps";
  case ReasonCode::ExclusionTurnsSign:
    return "exclusion_turns_sign";
  case ReasonCode::GatesPassed:
    return "gates_passed";
  case ReasonCode::NoGate:
    return "no_gate";
  case ReasonCode::ParityNotShown:
    return "parity_not_shown";
  case ReasonCode::NeedsLossTest:
    return "needs_loss_test";
  case ReasonCode::TimedLossesDiffer:
    return "timed_losses_differ";
  case ReasonCode::LossLost:
    return "loss_lost";
  case ReasonCode::TrainingParts:
    return "training_parts";
  case ReasonCode::LossTest:
    return "loss_test";
  case ReasonCode::NotTestable:
    return "not_testable";
  case ReasonCode::Setting:
    return "setting";
  case ReasonCode::NoCell:
    return "no_cell";
  case ReasonCode::UnknownMetric:
    return "unknown_metric";
  case ReasonCode::UnknownModelSize:
    return "unknown_model_size";
  case ReasonCode::NoLossLaunches:
    return "no_loss_launches";
  case ReasonCode::ConditionsNotMet:
    return "conditions_not_met";
  case ReasonCode::NotMeasured:
    return "not_measured";
  case ReasonCode::NoInterval:
    return "no_interval";
  case ReasonCode::IntervalUndecided:
    return "interval_undecided";
  case ReasonCode::StagesNotChecked:
    return "stages_not_checked";
  case ReasonCode::NoGainInStages:
    return "no_gain_in_stages";
  case ReasonCode::GainElsewhere:
    return "gain_elsewhere";
  }
  return "unknown";
}

} // namespace assay
