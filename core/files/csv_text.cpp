#include "core/files/csv_text.h"

#include "core/text.h"

namespace assay {

std::string csv_field(std::string_view text) {
  std::string clean = printable(text);
  if (clean.find_first_of(",\"\r\n") == std::string::npos) return clean;
  std::string result = "\"";
  for (const char c : clean) result += c == '"' ? "\"\"" : std::string(1, c);
  return result + "\"";
}

} // namespace assay
