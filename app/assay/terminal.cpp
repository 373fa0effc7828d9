#include "app/assay/terminal.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "app/command_line/help.h"
#include "app/number_checks.h"

namespace assay::cli {

namespace {

bool has_unicode() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    return std::strstr(value, "UTF-8") != nullptr || std::strstr(value, "utf8") != nullptr;
  }
  return false;
}

// https://no-color.org: NO_COLOR counts unless it is empty.
bool wants_color(const std::string& color) {
  if (color != "auto") return color == "always";
  const char* refused = std::getenv("NO_COLOR");
  return ::isatty(STDOUT_FILENO) != 0 && (refused == nullptr || *refused == '\0');
}

} // namespace

void TerminalOptions::add_to(CLI::App& command, bool with_ascii) {
  if (with_ascii) command.add_flag("--ascii", ascii, "no characters beyond ASCII");
  command.add_option("--width", width, "columns (default: COLUMNS, or the terminal's)")
      ->check(whole_number(20, 100'000));
  one_of(command.add_option(
             "--color", color, "colours (default: auto, which asks the terminal and NO_COLOR)"),
         {"auto", "always", "never"});
}

TableStyle TerminalOptions::style() const {
  return terminal_style(ascii, width, color);
}

TableStyle terminal_style(bool ascii, int width, const std::string& color) {
  TableStyle style;
  style.width = width > 0 ? width : terminal_columns(STDOUT_FILENO, style.width);
  style.unicode = !ascii && has_unicode();
  style.color = wants_color(color);
  return style;
}

} // namespace assay::cli
