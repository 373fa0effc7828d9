// Telemetry under a trace's lanes, on the lanes' own time axis: clocks and power of a GPU, load and
// memory of the host. A and B share each strip's scale.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "core/trace.h"

namespace assay {

struct Workspace;

struct TelemetryStrip {
  const TelemetrySeries* series = nullptr; // of this side
  std::size_t index = 0;                   // into Trace::telemetry
  double low = 0, high = 0;                // of the series over both whole traces
  std::optional<double> mean;              // of the samples in sight, else of those beside them
  bool between = false;                    // no sample lies in sight
  std::string title;                       // "Power [W] 612", "Power [W] ~612" between samples
};

// The strips of a side, most telling first; none without samples or when they are switched off.
std::vector<TelemetryStrip> telemetry_strips(const Workspace& workspace, std::size_t side);

// Takes `strips.size()` rows of telemetry_strip_height().
void draw_telemetry_strips(const Workspace& workspace,
                           std::size_t side,
                           const std::vector<TelemetryStrip>& strips,
                           float gutter,
                           float width);
float telemetry_strip_height();

} // namespace assay
