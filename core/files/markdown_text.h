// Text inside a table of Markdown.
#pragma once

#include <string>
#include <string_view>

namespace assay {

// One cell: printable text without column breaks, line breaks, markup or HTML.
std::string markdown_cell(std::string_view text);

} // namespace assay
