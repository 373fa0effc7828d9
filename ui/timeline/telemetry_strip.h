// Draws telemetry under a trace's lanes, on the lanes' own time axis.
#pragma once

#include <cstddef>
#include <vector>

#include "ui/model/telemetry/telemetry_strips.h"

namespace assay {

// Takes `strips.size()` rows of telemetry_strip_height().
void draw_telemetry_strips(const Workspace& workspace,
                           std::size_t side,
                           const std::vector<TelemetryStrip>& strips,
                           float gutter,
                           float width);
float telemetry_strip_height();

} // namespace assay
