// CSV as RFC 4180 has it: comma, CRLF, quotes where needed.
#pragma once

#include <string>
#include <string_view>

namespace assay {

// A field of printable text, quoted if it contains a comma, a quote or a line break. Text that a
// spreadsheet would run as a formula (it starts with = + - or @ and is no number) gets an
// apostrophe in front.
std::string csv_field(std::string_view text);

} // namespace assay
