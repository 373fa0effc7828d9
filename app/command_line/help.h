// The text of `--help`, `assay help` and the man page, made of the parser's own definitions.
#pragma once

#include <CLI/CLI.hpp>

#include <cstddef>
#include <string>

namespace assay {

// COLUMNS, then the width of this stream's terminal, of a pipe that of the terminal of stderr, then
// `otherwise`.
int terminal_columns(int stream, int otherwise);

// Breaks at words; lines after the first begin with `indent` spaces.
std::string wrap_text(const std::string& text, std::size_t width, std::size_t indent);

// A command, indented by two columns, on lines that a shell accepts as one: broken before options,
// pipes, `<` and `&&` alone, so that a longer piece stays whole.
std::string wrap_command(const std::string& line, std::size_t width);

// "usage: assay run MATRIX --out DIR [OPTIONS]"; `path`: "assay run".
std::string usage_line(const CLI::App& app, const std::string& path);

// `app` and the commands that are added to it later show their help in this form. A command's group
// orders it in the list, its footer contains examples.
void use_plain_help(CLI::App& app);

// The commands of `app` as sections of a man page (troff); forwarded ones are left out.
std::string manual_sections(const CLI::App& app);
// A footer of examples as lines of a man page, none wider than a page of 80 columns.
std::string manual_examples(const std::string& footer);
// One line of a man page, its control characters and all beyond ASCII escaped.
std::string troff_text(const std::string& text);

} // namespace assay
