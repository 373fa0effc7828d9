// Optimizer steps and seconds until a training reaches a loss that the plan declares, paired by
// seed (docs/statistics.md, "Steps and time to a loss").
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/ledger/ledger.h"
#include "experiments/evidence/cell_view.h"
#include "experiments/evidence/effect.h"

namespace assay {

struct TimeToLoss {
  double target = 0; // nats per token
  // Where a step of each side takes other tokens: those of a step of the baseline, which steps then
  // count. 0: both take the same, or they are not known.
  std::int64_t tokens_per_step = 0;
  int seeds = 0;                       // that both sides completed
  int a_reached = 0, b_reached = 0;    // of these
  int a_at_once = 0, b_at_once = 0;    // of those that reached it: by their first mean, so at most
  double first_steps = 0;              // after so many steps, and nothing more is known of them
  double a_steps = 0;                  // mean over seeds; 0 where they are not known of one
  double b_steps = 0;                  // a_steps times the ratio that `steps` estimates
  std::optional<Estimate> steps;       // ln(candidate / baseline) by seed, where all are known
  double a_seconds = 0, b_seconds = 0; // 0 where steps or the time of a step are not known
  std::optional<Estimate> time;        // of the seconds: steps by seed and step time by launch
};

struct StepsToLoss {
  double steps = 0;
  bool at_once = false; // by the first mean: `steps` is an upper bound
};

// Steps after which the mean loss of the last `window` visits is at or below `target`, by linear
// interpolation between visits. Nothing: not reached.
std::optional<StepsToLoss> steps_to_loss(const std::vector<double>& curve,
                                         std::size_t window,
                                         int steps_a_visit,
                                         double target);

// Nothing where the plan declares no target. `effect`: of the time of a unit, or none.
std::optional<TimeToLoss> time_to_loss(const CellView& cell,
                                       const VariantRow& a,
                                       const VariantRow& b,
                                       const std::optional<Effect>& effect,
                                       double judged_alpha);

} // namespace assay
