// What moves the timeline: steps, zoom, pan, selection. Linked sides move together.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "ui/model/align.h"

namespace assay {

struct Workspace;

void trace_arrived(Workspace& workspace, std::size_t side); // chooses a step, shows it whole

void set_step(Workspace& workspace, std::size_t side, std::size_t step);
void move_step(Workspace& workspace, std::ptrdiff_t by);
void representative_step(Workspace& workspace);

void fit_step(Workspace& workspace);
void fit_run(Workspace& workspace);
void zoom(Workspace& workspace, double factor, double at); // at: share of the width; factor < 1: in
void pan(Workspace& workspace, double share);              // of the width
void show_range(Workspace& workspace, std::size_t side, double from, double span);
void cycle_align(Workspace& workspace);

void select_event(Workspace& workspace, std::size_t side, EventRef event);
// Zooms to an interval of the side's trace, with enough around it to show its place.
void focus_on(Workspace& workspace, std::size_t side, std::int64_t start, std::int64_t end);
void focus_selected(Workspace& workspace);
void next_same(Workspace& workspace, std::ptrdiff_t by); // same name, same side
void neighbour(Workspace& workspace, std::ptrdiff_t by); // same lane
// Selects the first event of this name in the current step, in B or else in A. False: none.
bool find_name(Workspace& workspace, const std::string& name);

// The partner of the selected event on the other side; nothing without one.
std::optional<Partner> partner_of(const Workspace& workspace, const struct Selection& selection);

} // namespace assay
