// Draws one trace of the timeline: step strip, ruler, and the visible part of its tracks.
#pragma once

#include <cstddef>
#include <vector>

#include "imgui.h"
#include "ui/model/trace/layout.h"

namespace assay {

struct Workspace;
struct Palette;

struct SideFrame { // the place of one trace on the screen
  std::size_t side = 0;
  ImVec2 corner;             // of the lanes
  float gutter = 0;          // width of the titles
  float width = 0;           // of the plot beside them
  float height = 0, row = 0; // of the lanes and of one row, pixels
  double first_row = 0;
  SideLayout layout;

  float x(const Workspace& workspace, double after_anchor_ns) const;
  double time_at(const Workspace& workspace, float x) const; // ns after the anchor
};

// One bar a step, as high as the step is long; a click goes there. Takes one line.
void draw_step_strip(Workspace& workspace, std::size_t side, float gutter, float width);
// Ticks and times under the strip; returns nothing, takes one line.
void draw_ruler(const Workspace& workspace, std::size_t side, float gutter, float width);

void draw_lanes(Workspace& workspace, const SideFrame& frame);
// The box under the pointer, or null.
const Box* box_at(const SideFrame& frame, const TraceView& view, ImVec2 mouse, std::size_t& track);

} // namespace assay
