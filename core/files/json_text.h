// Pieces of JSON text, appended to a buffer: for files too large to build as a document.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace assay {

void append_integer(std::string& out, std::int64_t value);
// Shortest text that reads back as the same double; a value that is not finite becomes null.
void append_number(std::string& out, double value);
// Nanoseconds as microseconds with exactly three decimals: 1234567 -> 1234.567.
void append_microseconds(std::string& out, std::int64_t ns);
// The inside of a JSON string: quotes, backslashes and control bytes escaped, bytes that are not
// UTF-8 replaced by U+FFFD.
std::string escape_json(std::string_view text);
// A value in a message: safe to print, "…" after 60 bytes.
std::string short_json(const nlohmann::json& value);

} // namespace assay
