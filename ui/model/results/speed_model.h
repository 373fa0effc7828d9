// What "A vs B" says of speed, as plain data: tokens/s, MFU, memory, what the device could do at
// its measured peaks and what binds. Figures and words are those of the report (speed.h, cost.h).
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "experiments/analysis/report.h"

namespace assay {

struct SpeedRow {
  std::string label;
  std::array<std::string, 2> values; // A, B; "-": not measured
};

struct SpeedModel {
  bool step_beside = false; // of the train step beside the cell's unit: the same for A and B
  std::vector<SpeedRow> rows;
  std::vector<std::string> notes; // why something is not known, each reason once
};

// Nothing where the speed of neither variant is known.
std::optional<SpeedModel> speed_model(const CellReport& cell, const Comparison& comparison);
nlohmann::ordered_json to_json(const SpeedModel& model);

} // namespace assay
