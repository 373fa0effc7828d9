// Which telemetry is shown under a trace's lanes, and its samples in sight: clocks and power of a
// GPU, load and memory of the host. A and B share each strip's scale.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "core/trace/trace.h"
#include "ui/model/telemetry/telemetry_model.h"

namespace assay {

struct Workspace;

struct TelemetryStrip {
  const TelemetrySeries* series = nullptr; // of this side
  std::size_t index = 0;                   // into Trace::telemetry
  double low = 0, high = 0;                // of the series over both whole traces
  std::optional<double> mean;              // of the samples in sight, else of those beside them
  bool between = false;                    // no sample is in sight
  std::string title;                       // "Power [W] 612", "Power [W] ~612" between samples
};

// The strips of a side, most telling first; none without samples or when they are switched off.
std::vector<TelemetryStrip> telemetry_strips(const Workspace& workspace, std::size_t side);

// A strip's samples in the side's shown time, at most one low and high per column.
std::vector<Strip> samples_in_sight(const Workspace& workspace,
                                    std::size_t side,
                                    const TelemetryStrip& strip,
                                    int columns);

} // namespace assay
