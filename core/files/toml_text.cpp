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

std::string toml_float(double value) {
  const std::string text = fmt::format("{}", value);
  return text.find_first_not_of("-0123456789") == std::string::npos ? text + ".0" : text;
}

} // namespace assay
