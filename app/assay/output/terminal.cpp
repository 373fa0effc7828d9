#include "app/assay/output/terminal.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "app/command_line/help.h"
#include "app/value_checks.h"
#include "core/result.h"
#include "core/terminal_width.h"
#include "core/text.h"

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

enum class Color { Auto, Always, Never };
Color chosen_color = Color::Auto;

// https://no-color.org: NO_COLOR counts unless it is empty.
bool wants_color() {
  if (chosen_color != Color::Auto) return chosen_color == Color::Always;
  const char* refused = std::getenv("NO_COLOR");
  return ::isatty(STDOUT_FILENO) != 0 && (refused == nullptr || *refused == '\0');
}

} // namespace

void add_color_option(CLI::App& command) {
  const auto choose = [](const std::string& word) {
    chosen_color = word == "always" ? Color::Always : word == "never" ? Color::Never : Color::Auto;
  };
  one_of(command.add_option_function<std::string>(
             "--color", choose, "colours (default: auto, which asks the terminal and NO_COLOR)"),
         {"auto", "always", "never"});
}

void TerminalOptions::add_to(CLI::App& command, bool with_ascii) {
  if (with_ascii) command.add_flag("--ascii", ascii, "no characters beyond ASCII");
  command.add_option("--width", width, "columns (default: COLUMNS, or the terminal's)")
      ->check(whole_number(kLeastColumns, 100'000));
  add_color_option(command);
}

TableStyle TerminalOptions::style() const {
  return terminal_style(ascii, width);
}

std::vector<std::string> TerminalOptions::arguments() const {
  std::vector<std::string> words;
  if (ascii) words.emplace_back("--ascii");
  if (width > 0) words.insert(words.end(), {"--width", std::to_string(width)});
  if (chosen_color != Color::Auto)
    words.insert(words.end(), {"--color", chosen_color == Color::Always ? "always" : "never"});
  return words;
}

TableStyle terminal_style(bool ascii, int width) {
  TableStyle style;
  style.width = width > 0 ? width : terminal_columns(STDOUT_FILENO, style.width);
  style.unicode = !ascii && has_unicode();
  style.color = wants_color();
  return style;
}

std::size_t table_width(const TableRows& rows) {
  std::size_t width = 0;
  for (std::size_t c = 0; !rows.empty() && c < rows[0].size(); ++c) {
    std::size_t widest = 0;
    for (const std::vector<std::string>& row : rows)
      widest = std::max(widest, display_width(printable(row[c])));
    width += widest + (c > 0 ? 2 : 0);
  }
  return width;
}

void print_command(TextWriter& out, const std::string& lead, const std::string& command) {
  const std::string text = printable(command), line = lead + " " + text;
  if (display_width(line) <= out.width()) return out.raw(line);
  out.line(lead.substr(lead.find_first_not_of(' ')), lead.find_first_not_of(' '));
  out.raw(wrap_command(text, out.width()));
}

Section as_section(const TableRows& rows, const std::vector<bool>& right, std::size_t names) {
  if (rows.front().size() != right.size())
    internal_error("{} columns with {} alignments", rows.front().size(), right.size());
  Section section{.names = names};
  for (std::size_t i = 0; i < rows.front().size(); ++i)
    section.columns.push_back({rows.front()[i], right[i]});
  for (std::size_t i = 1; i < rows.size(); ++i) section.rows.push_back({rows[i]});
  return section;
}

} // namespace assay::cli
