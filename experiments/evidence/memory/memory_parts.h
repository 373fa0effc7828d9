// What the bytes at the peak of a comparison's two sides are (model/memory/allocation_log.h).
#pragma once

#include <string>
#include <vector>

#include "core/ledger/ledger.h"
#include "experiments/evidence/cell_view.h"

namespace assay {

// Medians over the launches that measured both sides; 0 where a side has no such bytes.
struct MemoryPartEffect {
  std::string phase;  // "weights", "saved_for_backward" …
  std::string module; // "layers.3.feed_forward", "head"; "": of none, or, where summed, of all
  double a_bytes = 0, b_bytes = 0;

  double difference() const { return b_bytes - a_bytes; }
};

// By phase in the order of a step, then by module; the layers one by one.
std::vector<MemoryPartEffect>
memory_parts(const CellView& cell, const VariantRow& a, const VariantRow& b);

// The same summed over modules, or over layers: "feed_forward" for "layers.0.feed_forward" and all
// others. Phases in order; modules by the size of their difference, then by their size.
std::vector<MemoryPartEffect> by_phase(const std::vector<MemoryPartEffect>& parts);
std::vector<MemoryPartEffect> by_module(const std::vector<MemoryPartEffect>& parts);

} // namespace assay
