// The memory of the screen "Compare", as plain data: bytes over a step of both sides, and the
// report's tables of what they are at the peak. Milliseconds from the step's begin; a step in which
// every allocation is noted takes longer than a timed one.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "experiments/analysis/report.h"
#include "experiments/report/section.h"

namespace assay {

struct MemorySide {
  std::string variant;
  std::vector<double> ms, used; // in the model's unit
  std::vector<StepMemory::Stage> stages;
  std::string words; // "17.4 GiB at the peak, at 42 % of the step, in forward"
};

struct MemoryModel {
  std::array<MemorySide, 2> sides; // baseline, candidate
  double ms = 0, used = 0;         // where the axes end; 0 without a curve
  std::string unit;                // "MiB" or "GiB"
  std::string why_no_curve;        // no curve of either side, or ""
  Section phases, modules;
};

// Nothing where the ledger does not say what the bytes are.
std::optional<MemoryModel> memory_model(const Comparison& comparison);
nlohmann::ordered_json to_json(const MemoryModel& model);

} // namespace assay
