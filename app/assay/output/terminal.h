// How this terminal shows text: width, Unicode, colour.
#pragma once

#include <CLI/CLI.hpp>

#include <cstddef>
#include <string>
#include <vector>

#include "experiments/report/render.h"
#include "experiments/report/section.h"
#include "experiments/report/text_layout.h"

namespace assay::cli {

// The options of every command that prints for people.
struct TerminalOptions {
  bool ascii = false;
  int width = 0; // 0: COLUMNS, the terminal's, or 100

  // --width, --color and, `with_ascii`, --ascii.
  void add_to(CLI::App& command, bool with_ascii = true);
  TableStyle style() const;
  // The same options for another command: "--width", "80" …
  std::vector<std::string> arguments() const;
};

// --color; the choice applies to the whole process.
void add_color_option(CLI::App& command);

// `width` > 0 and `ascii` override terminal and locale.
TableStyle terminal_style(bool ascii, int width);

// Columns that TextWriter::columns() needs for a table without cutting its last column. What does
// not fit the terminal needs another form.
using TableRows = std::vector<std::vector<std::string>>;
std::size_t table_width(const TableRows& rows);
// `lead` and the command on a line, or below it where they do not fit.
void print_command(TextWriter& out, const std::string& lead, const std::string& command);
// The same table where it does not fit: print_section() wraps it. The first `names` columns name a
// row.
Section as_section(const TableRows& rows, const std::vector<bool>& right, std::size_t names);

} // namespace assay::cli
