// The memory of a comparison: both sides' bytes over a step above the tables of its peak.
#pragma once

namespace assay {

struct MemoryModel;
struct Palette;

void draw_memory(const MemoryModel& model, const Palette& colors); // into the rest of the window

} // namespace assay
