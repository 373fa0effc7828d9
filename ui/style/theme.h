// Colours and spacing. Every text colour has a contrast of at least 4.5:1 on every surface it is
// drawn on (WCAG 2.1, success criterion 1.4.3); a test computes it.
#pragma once

#include <cstdint>

#include "ui/model/theme_kind.h"

namespace assay {

struct Color {
  std::uint8_t r = 0, g = 0, b = 0;
  constexpr bool operator==(const Color&) const = default;
};

enum class Tone; // experiments/evidence/verdict.h; words carry the meaning, the colour comes third

struct Palette {
  Color window, panel, panel_alternate, selected; // surfaces
  Color border;
  Color text, muted, accent;         // text
  Color good, bad, neutral, warning; // text and marks
  Color on_badge;                    // text on a badge filled with one of the four above
  Color reference, level;            // the two sides (Okabe-Ito blue and orange): marks only
  Color band, claim;                 // A/A band, claimed range: areas behind marks

  Color tone(Tone tone) const;
};

const Palette& palette(ThemeKind kind);

// Relative luminance ratio, 1 … 21 (WCAG 2.1).
double contrast(Color a, Color b);

// Puts palette and spacing into the current ImGui and ImPlot contexts; scale 1 is 15 pixel text.
void apply_theme(ThemeKind kind, float scale);

} // namespace assay
