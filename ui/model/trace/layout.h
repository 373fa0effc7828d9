// Layout of one trace in one frame: boxes in pixels and rows, never more than the budget whatever
// the size of the trace.
#pragma once

#include <cstdint>
#include <vector>

#include "ui/model/trace/trace_view.h"

namespace assay {

inline constexpr std::size_t kBoxBudget = 5000; // rectangles a frame, both traces together

struct Box {
  float x0 = 0, x1 = 0;      // pixels from the left edge of the plot
  std::uint32_t lane = 0;    // of the track
  std::uint32_t first = 0;   // position in the lane
  std::uint32_t count = 1;   // above 1: neighbours too short to be drawn apart
  float busy = 1;            // share of the box's width that they fill
  std::uint32_t longest = 0; // position in the lane
  std::uint8_t tag = 0;      // TraceView::tag of the longest
};

struct TrackLayout {
  std::size_t track = 0; // index into TraceView::tracks
  double row = 0;        // of its first lane
  std::vector<Box> boxes;
};

struct LayoutRequest {
  std::int64_t from = 0, to = 1;        // on the trace's clock
  float width = 100;                    // pixels
  double first_row = 0, last_row = 1e9; // visible ones
  std::size_t budget = kBoxBudget / 2;
};

struct SideLayout {
  std::vector<TrackLayout> tracks; // visible ones
  double rows = 0;                 // of all tracks
  std::size_t boxes = 0;
  double grain_px = 3; // narrower events are put together
};

SideLayout lay_out(const TraceView& view, const LayoutRequest& request);

inline constexpr double kTrackGap = 0.3; // rows

// The longest event of a box.
EventRef event_of(const Track& track, const Box& box);

// Events of one box, by name: the most time first.
struct NameShare {
  NameId name = 0;
  std::size_t count = 0;
  std::int64_t ns = 0;
};
std::vector<NameShare> names_in(const TraceView& view, const Track& track, const Box& box);

} // namespace assay
