// Any section on a terminal, fitted to its width: a table in one piece, else with its longest text
// wrapped, else with the row's name on a line of its own, else as "title value" pairs.
#pragma once

#include "experiments/report/section.h"
#include "experiments/report/text_layout.h"

namespace assay {

// With its notes; without its title.
void print_section(TextWriter& out, const Section& section, std::size_t indent = 2);

} // namespace assay
