// A finished plan with two cells and known effects, for tests of the viewer. Times come from a
// fixed seed.
#pragma once

#include <string>

#include "core/ledger/ledger.h"

namespace assay {

struct SmallPlan {
  int launches = 5;
  double varlen = -0.12; // theta of varlen against mask_dense
  double guard = 0;      // theta of the second cell
  bool parity_passes = true;
};

LedgerData planned_only(); // spec, optimizations, claims, cells, variants; no launch yet
LedgerData finished(const SmallPlan& plan = {});

// Writes it into a results directory by the engine's own handle.
void store(const LedgerData& data, const std::string& directory);

} // namespace assay
