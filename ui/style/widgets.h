// Small drawn things that screens share. Sizes come from the font, never from pixels.
#pragma once

#include <string>
#include <string_view>

#include "imgui.h"
#include "ui/model/results/verdict_model.h"
#include "ui/style/theme.h"

namespace assay {

ImVec4 to_vec4(Color color, float alpha = 1);
ImU32 to_u32(Color color, float alpha = 1);

void text(Color color, std::string_view words);         // one line
void text_wrapped(Color color, std::string_view words); // to the width that is left

void text_cut(Color color, std::string_view words); // one line, "…" where it does not fit

// The baseline is a circle, the candidate a square, everywhere.
void side_mark(const Palette& palette, std::size_t side);

// Slanted lines over a rectangle: what is not certain.
void hatch(ImVec2 low, ImVec2 high, ImU32 color);

// Words on a filled rectangle.
void badge(const Palette& palette, Tone tone, std::string_view words);

// The picture of one effect: claimed range and A/A band as areas, zero as a line, the interval with
// its point on top. An interval that covers zero is drawn hollow. `axis`: the width shows -axis …
// +axis percent.
void interval_bar(const Palette& palette, const IntervalPicture& picture, double axis, ImVec2 size);

// "-5 %", "0" and "+5 %" above the ends and the middle of bars of this width; on the current line.
void axis_labels(const Palette& palette, double axis, float width);

// What the parts of interval_bar mean, in a row.
void interval_legend(const Palette& palette);

// Centred: title, explanation, and the command that helps, ready to be copied.
void notice(const Palette& palette, const Notice& notice, bool failed);

} // namespace assay
