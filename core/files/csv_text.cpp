#include "core/files/csv_text.h"

#include <charconv>

#include "core/text.h"

namespace assay {

namespace {

// What a spreadsheet takes for the beginning of a formula, after its white space.
bool starts_formula(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || first + 1 == text.size()) return false;
  if (std::string_view("=+-@").find(text[first]) == std::string_view::npos) return false;
  double number = 0; // "-1.5" is a number, not a formula
  const char* const end = text.data() + text.size();
  const char* const from = text.data() + first + (text[first] == '+' ? 1 : 0);
  const auto [rest, code] = std::from_chars(from, end, number);
  return code != std::errc() || rest != end;
}

} // namespace

std::string csv_field(std::string_view text) {
  std::string clean = (starts_formula(text) ? "'" : "") + printable(text);
  if (clean.find_first_of(",\"\r\n") == std::string::npos) return clean;
  std::string result = "\"";
  for (const char c : clean) result += c == '"' ? "\"\"" : std::string(1, c);
  return result + "\"";
}

} // namespace assay
