// The speed of both variants, side by side.
#pragma once

namespace assay {

struct Comparison;
struct Palette;
struct SpeedModel;

void draw_speed(const SpeedModel& model, const Comparison& comparison, const Palette& colors);

} // namespace assay
