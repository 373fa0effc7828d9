// Parses a command line and reports what is wrong with it.
#pragma once

#include <CLI/CLI.hpp>

namespace assay {

// False: help or a version was asked for and printed. A mistake throws Failure (bad input); the
// first word that is wrong is named, with what was probably meant. Callbacks run inside.
[[nodiscard]] bool parse_command_line(CLI::App& app, int argc, const char* const* argv);

} // namespace assay
