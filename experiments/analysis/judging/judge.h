// From measured effect and evidence to the four fields of a verdict, with the reasons.
#pragma once

#include <optional>

#include "experiments/analysis/judging/compare.h"
#include "experiments/analysis/report.h"

namespace assay {

// What applies to every comparison of a cell.
struct CellContext {
  std::optional<Reason> invalid; // why nothing in the cell can be believed
  double sesoi = 0.01;
  std::optional<Reason> redo = std::nullopt;      // what to do about launches that were disturbed
  std::optional<Reason> redo_cell = std::nullopt; // the same where one side was disturbed more
};

// Speed alone: inside +-sesoi NO_EFFECT, else by the side of 0 of the whole judged interval,
// else INCONCLUSIVE.
Speed judge_speed(const Estimate& theta, double sesoi);

// The same with what FASTER and SLOWER need besides: kFullLaunches launches, and the median's sign
// in total time. INCONCLUSIVE where either lacks.
Speed decided_speed(const Effect& effect, double sesoi);
// Why a speed is INCONCLUSIVE, and what would decide it; empty where it is decided.
std::vector<Reason> why_undecided(const Effect& effect, double sesoi);
// That its median step and total time have different signs.
Reason total_time_disagrees(const Effect& effect);

// Fills comparison.verdict except its claim.
void judge(Comparison& comparison, const CellContext& context);

// The contrasts of the cell's design. One is decided where each of its pairs has the validity OK
// and harms no training: after a failed gate, disturbed pairs, unequal work, too few launches or an
// alarm of the control there is no figure to believe. `known`: the cell's judged comparisons.
std::vector<Contrast> judge_contrasts(const CellView& cell,
                                      const std::vector<Comparison>& known,
                                      const CellContext& context,
                                      const Levels& levels);

// `claim` against one comparison, whose verdict and explanation are final; the clause on named
// stages included.
// `padding_share`: of the positions of the baseline's steps.
ClaimResult judge_claim(const ClaimRow& claim,
                        const CellView& cell,
                        const Comparison& comparison,
                        double padding_share);

// Gives every comparison's verdict the claim that it answers. Several claims may be about one
// comparison: the verdict carries the least favourable of those that were judged, so that one kept
// claim never hides a broken one; else the first that was not.
void adopt_claims(Report& report);

} // namespace assay
