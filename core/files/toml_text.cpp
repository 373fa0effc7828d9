#include "core/files/toml_text.h"

#include <fmt/format.h>

namespace assay {

std::string toml_string(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      result += {'\\', c};
    else if (code < 0x20 || code == 0x7F)
      result += fmt::format("\\u{:04X}", code);
    else
      result += c;
  }
  return result + '"';
}

} // namespace assay
