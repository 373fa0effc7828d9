// The energy that a comparison's two sides draw, from the energy launch: visits of at least
// kEnergySeconds each, paired by round.
#pragma once

#include <optional>
#include <string>

#include "core/ledger/ledger.h"
#include "experiments/evidence/cell_view.h"
#include "experiments/evidence/effect.h"

namespace assay {

struct EnergyEffect {
  double a_j = 0, b_j = 0; // medians, joules a unit: a train step, an evaluation, a token
  double a_token_j = 0, b_token_j = 0; // medians, joules a token that enters a loss; 0: unknown
  double seconds = 0;                  // the shortest visit of both sides
  // ln(joules_B / joules_A) by pair of one launch: its intervals are over rounds, not launches.
  Estimate log_ratio;
};

// Nothing without an energy launch, or where the device's energy cannot be read. Pairs that other
// work disturbed are left out, as those of times are.
std::optional<EnergyEffect>
energy_effect(const CellView& cell, const VariantRow& a, const VariantRow& b, double judged_alpha);

// Why the cell's energy launch gives no figure, or "": it is there, or not yet, or not planned.
std::string why_no_energy(const CellView& cell);

} // namespace assay
