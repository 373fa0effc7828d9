#include "core/files/shell_text.h"

#include <algorithm>

namespace assay {

namespace {

// Letters and digits of any script are plain; of ASCII these signs are too.
bool is_plain(unsigned char c) {
  return c >= 0x80 || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
         std::string_view("_-./:=,+@%").find(static_cast<char>(c)) != std::string_view::npos;
}

} // namespace

std::string shell_word(std::string_view text) {
  if (!text.empty() && std::all_of(text.begin(), text.end(), is_plain)) return std::string(text);
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? "'\\''" : std::string(1, c);
  return word + "'";
}

} // namespace assay
