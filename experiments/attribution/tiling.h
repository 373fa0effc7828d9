// Tiling: a trace's steps with their stages, and which part of it belongs to each device event
// alone. What waterfall and diff are made of.
#pragma once

#include <cstdint>
#include <vector>

#include "core/trace/trace.h"
#include "experiments/attribution/attribution.h"

namespace assay {

// Time of a step that belongs to a device event: the part that no event of higher rank (compute,
// then communication, then copies) or earlier start covers. Shares of a step sum to its busy time.
struct DeviceShare {
  std::uint32_t event = 0; // index into Trace::device
  std::uint32_t step = 0;  // index into TiledTrace::steps
  Stage stage = Stage::Idle;
  std::int64_t ns = 0;
};

// A device event with its place by launch; step -1: outside every step.
struct DeviceOwner {
  std::int64_t step = -1;
  Stage stage = Stage::Idle;
};

struct TiledTrace {
  std::vector<StepTiling> steps;   // as Trace::steps
  std::vector<DeviceShare> shares; // empty on a CPU
  std::vector<DeviceOwner> owners; // by device event; empty on a CPU
};

TiledTrace tile_trace(const Trace& trace);

// Index of the step whose host interval contains `time`, or -1. `steps` are ordered by start.
std::int64_t step_at(const std::vector<StepRow>& steps, std::int64_t time);

} // namespace assay
