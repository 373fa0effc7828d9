// Chrome JSON of one trace file, or of two side by side as two groups of processes, aligned at
// their first exported step. Streaming: the document is never in memory. Conventions:
// docs/exports.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiments/export/trace_cursor.h"

namespace assay {

struct StepWindow { // numbers of ASSAY_STEP, both included
  std::int64_t first = 0, last = 0;
};

struct ExportSummary {
  std::int64_t events = 0, bytes = 0;              // bytes before compression
  std::int64_t steps = 0;                          // exported, of all traces
  std::int64_t lost = 0;                           // rows without a time stamp, left out
  std::int64_t clamped = 0, moved = 0, placed = 0; // ChromeCounts
};

// `traces`: one path, or the baseline's and the candidate's. `out`: the file; compressed when it
// ends in .gz. Throws Failure (bad input) that names the file and the next action.
ExportSummary export_chrome(const std::vector<std::string>& traces,
                            const std::optional<StepWindow>& steps,
                            const std::string& out);

// The steps of a trace in the window, and the time from the first's start to the last's
// end; everything without a window. Throws bad input when the trace has none of these steps.
struct StepSelection {
  std::vector<StepRow> steps;
  TimeRange range;
};
StepSelection select_steps(const Trace& trace, const std::optional<StepWindow>& window);

} // namespace assay
