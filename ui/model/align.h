// Align: which moments of two traces are drawn above each other, and which event of one trace is
// the other's partner. Steps pair by round and position, as analysis pairs them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "ui/model/trace/trace_view.h"

namespace assay {

struct Workspace;

// The time of the side's trace that the ruler calls 0.
std::int64_t anchor(const Workspace& workspace, std::size_t side);

// The step of `to` with the round and position of `step` in `from`, if it has one.
std::optional<std::size_t>
paired_step(const TraceView& from, std::size_t step, const TraceView& to);

// The counted pair of steps that looks most like all counted pairs: nearest to the medians of both
// sides' stages and of the difference between the sides, with the sign of that median.
std::optional<std::array<std::size_t, 2>> representative_pair(const TraceView& a,
                                                              const TraceView& b);

// The interval in which events of this source belong to the step: the device's for what runs on
// the device, the host's otherwise.
struct StepSpan {
  std::int64_t start = 0, end = 0;
};
StepSpan span_of_step(const TraceView& view, std::size_t step, Source source);
// The step an event belongs to, or steps().size().
std::size_t step_of(const TraceView& view, EventRef event);

struct Partner {
  std::optional<EventRef> event;
  std::size_t ordinal = 0;         // the how manieth of its name in its step, from 0
  std::size_t here = 0, there = 0; // of that name in the two steps
};
// The event of the same name, and the same ordinal among them, in `to_step` of the other trace.
Partner
find_partner(const TraceView& from, EventRef event, const TraceView& to, std::size_t to_step);

// The CUDA call that launched this event of the device, if it was recorded.
std::optional<EventRef> launch_of(const TraceView& view, EventRef event);

} // namespace assay
