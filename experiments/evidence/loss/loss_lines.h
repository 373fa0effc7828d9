// The lines of a plot of losses, for report and viewer: the curves of a variant with their mean,
// and the difference of two variants at equal seeds, visit by visit.
#pragma once

#include <string>
#include <vector>

#include "core/ledger/ledger.h"
#include "experiments/evidence/loss/loss.h"

namespace assay {

// A variant's curves, and their mean over the seeds. Points into the curves that it was made of.
struct LossBundle {
  std::string variant;
  std::vector<const LossCurve*> seeds;
  std::vector<double> mean; // as far as every seed goes: another set of seeds is another curve
};
std::vector<LossBundle> loss_bundles(const std::vector<LossCurve>& curves); // in their order

// What an axis has to show of their curves: the finite losses with some room, around 0 without any.
struct LossRange {
  double low = 0, high = 0;
};
LossRange loss_range(const std::vector<LossBundle>& bundles);

// Variant minus reference, nats per token: mean over the seeds that both have, as far as all go.
// Empty without a common seed.
std::vector<double> loss_difference(const LossBundle& variant, const LossBundle& reference);

// The optimizer step of a visit's loss: the middle of the steps it is a mean over.
double step_of_visit(const CellRow& cell, std::size_t visit);

} // namespace assay
