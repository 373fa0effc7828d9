// The losses of a comparison: a plot of both variants' curves above one of their difference.
#pragma once

namespace assay {

struct LossModel;
struct Palette;

void draw_loss(const LossModel& model, const Palette& colors); // into what is left of the window

} // namespace assay
