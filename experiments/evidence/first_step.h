// What the first step of a launch takes, in which much is allocated, loaded and looked up that
// later steps reuse. It belongs to the warm-up, which counts in no figure.
#pragma once

#include <optional>

#include "experiments/evidence/cell_view.h"

namespace assay {

// Medians over the counted launches in which the variant ran first: it paid for what a process
// makes once.
struct FirstStep {
  double ns = 0;    // by the clock of its visits
  double times = 0; // over the median step of the same launch's counted visits
  int launches = 0;
};

// nullopt where it ran first in no launch with a warm-up, and for evaluations, before which a
// launch trains.
std::optional<FirstStep> first_step(const CellView& cell, const VariantRow& variant);

} // namespace assay
