// What the timeline shows of the traces: alignment, steps, ranges, what is selected.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "ui/model/trace/trace_view.h"

namespace assay {

enum class Align { StepStart, StageStart, Free };

struct TimeRange { // ns after the side's anchor
  double from = 0, span = 0;
};

struct Selection {
  std::size_t side = 0;
  EventRef event;
};

struct TimelineState {
  Align align = Align::StepStart;
  bool linked = true, ghost = false, swapped = false, wheel_zooms = false;
  bool strips = true;             // telemetry under the lanes
  bool gap_list = false;          // below both traces; else a line that names the longest
  std::optional<std::size_t> gap; // the shown one, index into Workspace::gaps
  bool scroll_to_gap = false;
  std::array<std::size_t, 2> step{};
  std::array<std::size_t, 2> typical{}; // what `step` was when the traces came
  std::array<TimeRange, 2> range{};
  std::size_t side = 0; // that keys act on when the sides are not linked
  std::optional<Selection> selected, hovered;
  std::optional<TimeRange> area; // dragged over, after the anchor
  float scroll_rows = 0;
  bool fit = true; // shows the whole step in the next frame that has traces
};

std::string_view to_string(Align align);

} // namespace assay
