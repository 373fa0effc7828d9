// A section as a table of GitHub's Markdown.
#pragma once

#include <string>

#include "experiments/report/section.h"

namespace assay {

// A toned column is bold, a column of numbers stands on the right.
std::string markdown_table(const Section& section);

} // namespace assay
