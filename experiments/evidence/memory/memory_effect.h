// Peak memory of a comparison's two sides, from memory launches.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "core/ledger/ledger.h"
#include "experiments/evidence/cell_view.h"
#include "experiments/evidence/effect.h"
#include "experiments/evidence/memory/memory_parts.h"
#include "experiments/evidence/memory/step_memory.h"

namespace assay {

inline constexpr double kMemoryNoise = 1e-4; // of ln(bytes): below are rounded blocks

struct MemoryEffect {
  int launches = 0;
  double a_bytes = 0, b_bytes = 0; // medians over launches
  Estimate log_ratio;              // ln(bytes_B / bytes_A) by launch
  // Largest |ln(bytes_control / bytes_reference)| of a launch; none where a launch has no control.
  std::optional<double> noise;
  // The allocator's figure repeats: the control needed its reference's bytes in every launch (or
  // three launches without controls agree), and all launches gave the same ratio.
  bool exact = false;
  // The difference is within a noise above kMemoryNoise: nothing to show.
  bool drowned() const {
    return !exact && noise && *noise > kMemoryNoise && std::abs(log_ratio.value) <= *noise;
  }
  // Where the highest moment is, of the newest launch: "backward/layers.1.gated_deltanet", or "".
  std::string a_moment = {}, b_moment = {};
  std::vector<MemoryPartEffect> parts = {}; // what the bytes are; empty in older ledgers
  // Over a step, of the newest launch; nothing in older ledgers.
  std::optional<StepMemory> a_curve = {}, b_curve = {};
};
// Interval of log_ratio: itself if exact; of one launch, the noise on both sides, none without it
// or where each variant has a process of its own (`turns`); of several the t interval.
std::optional<MemoryEffect>
memory_effect(const CellView& cell, const VariantRow& a, const VariantRow& b, double judged_alpha);

// The same of the bytes at the peak in `phases` ("weights,ema") alone; nothing where the ledger
// does not say what the bytes are, or none of them are the baseline's. An interval that is the
// noise of the peak stays as wide in bytes.
std::optional<Estimate> effect_in_phases(const MemoryEffect& memory, const std::string& phases);

} // namespace assay
