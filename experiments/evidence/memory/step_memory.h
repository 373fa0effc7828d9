// Bytes in use over the step of a variant's memory launch that has the peak
// (core/ledger/memory_parts.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/ledger/ledger.h"
#include "experiments/evidence/cell_view.h"

namespace assay {

struct StepMemory {
  struct Stage {
    std::string name; // "forward"
    double from_ms = 0, to_ms = 0;
  };
  std::vector<double> ms, bytes; // as many; ms from the step's begin
  std::vector<Stage> stages;     // the parts of the step, in order
};

// Of the newest complete memory launch; nothing where the ledger is older or the metric unreadable.
std::optional<StepMemory> step_memory(const CellView& cell, const VariantRow& variant);

} // namespace assay
