// The embedded fonts: Roboto Medium, and DejaVu Sans for signs that Roboto lacks (arrows, shapes,
// Greek).
#pragma once

namespace assay {

inline constexpr float kBaseFontSize = 15; // pixels at scale 1

// Into the current ImGui context. Glyphs are drawn on demand, at any size.
void add_fonts();

} // namespace assay
