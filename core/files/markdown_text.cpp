#include "core/files/markdown_text.h"

#include "core/text.h"

namespace assay {

namespace {

std::string escaped_outside_code(char c) {
  switch (c) {
  case '\n':
    return " ";
  case '<':
    return "&lt;";
  case '&':
    return "&amp;";
  default:
    return std::string(std::string_view("|`*_[]\\").find(c) != std::string_view::npos, '\\') + c;
  }
}

// What code means is not escaped, but for what ends a cell.
std::string code_span(std::string_view text) {
  std::string result = "`";
  for (const char c : text)
    if (c == '|')
      result += "\\|";
    else
      result += c == '\n' ? ' ' : c;
  return result + '`';
}

} // namespace

std::string markdown_cell(std::string_view text) {
  const std::string shown = printable(text);
  std::string result;
  for (std::size_t at = 0; at < shown.size(); ++at) {
    const std::size_t end = shown[at] == '`' ? shown.find('`', at + 1) : std::string::npos;
    if (end == std::string::npos || end == at + 1) {
      result += escaped_outside_code(shown[at]);
      continue;
    }
    result += code_span(std::string_view(shown).substr(at + 1, end - at - 1));
    at = end;
  }
  return result;
}

} // namespace assay
