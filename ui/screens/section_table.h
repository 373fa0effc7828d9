// Any section of the report, drawn.
#pragma once

namespace assay {

struct Palette;
struct Section;

// A list, labels with their texts, or a table; then the notes. Without the title.
void draw_titled(const Section& section, const Palette& colors); // with the title
void draw_section(const Section& section, const Palette& colors);

} // namespace assay
