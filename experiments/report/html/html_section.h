// A section as HTML, and the marks of names and texts on the page.
#pragma once

#include <string>

#include "experiments/report/section.h"

namespace assay {

// Escaped, with "->" as an arrow.
std::string html_text(const std::string& text);
// The same with what stands between backticks as code; not for SVG.
std::string html_prose(const std::string& text);
// Table, list of labels or plain list, with its notes; without a heading.
std::string section_body_html(const Section& section);
// With its heading, records folded; "" for an empty section.
std::string section_html(const Section& section, const char* heading = "h2");
// One of the two is shown, by the width of the page.
std::string two_shapes(const std::string& wide, const std::string& narrow);

} // namespace assay
