#include "core/files/markdown_text.h"

#include "core/text.h"

namespace assay {

std::string markdown_cell(std::string_view text) {
  std::string result;
  for (const char c : printable(text)) {
    if (c == '\n')
      result += ' ';
    else if (c == '<')
      result += "&lt;";
    else if (c == '&')
      result += "&amp;";
    else {
      if (std::string_view("|`*_[]\\").find(c) != std::string_view::npos) result += '\\';
      result += c;
    }
  }
  return result;
}

} // namespace assay
