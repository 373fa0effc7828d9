// Idle gaps: the longest times in which a device did nothing inside a step. Found by the query of
// `assay sql --name gaps` (experiments/attribution/device_gaps.h); this file places them on the
// timeline.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "experiments/attribution/device_gaps.h"
#include "ui/model/trace/trace_view.h"

namespace assay {

struct Workspace;

struct IdleGap {
  std::size_t side = 0, step = 0;  // step: index into TraceView::steps()
  std::int64_t start = 0, end = 0; // on the trace's clock
  std::uint32_t device = 0;
  std::string after, before; // what ran
  std::string meanwhile;     // stage that has most of the gap: "host gap" (the host works), "idle"
  double length() const { return static_cast<double>(end - start); }
};

// Those inside a step as the timeline shows it, longest first.
std::vector<IdleGap>
gaps_inside_steps(const TraceView& view, std::size_t side, const std::vector<DeviceGap>& gaps);

// Both sides' gaps into Workspace::gaps, longest first.
void gather_gaps(Workspace& workspace);
// Shows a gap: its step, the gap in the middle with what surrounds it, measured.
void show_gap(Workspace& workspace, std::size_t index);
void next_gap(Workspace& workspace, std::ptrdiff_t by); // to a shorter one; from none: the longest

// How many there are, or why there is none.
std::string gap_words(const Workspace& workspace);
std::string one_gap_words(const Workspace& workspace, std::size_t index);
std::vector<std::string> gap_cells(const Workspace& workspace, const IdleGap& gap);
inline constexpr const char* kGapColumns[] = {"idle", "step", "stage", "after", "before"};
nlohmann::ordered_json gaps_json(const Workspace& workspace);

} // namespace assay
