// Parses a command line and reports what is wrong with it.
#pragma once

#include <CLI/CLI.hpp>

#include <vector>

namespace assay {

// False: help or a version was asked for and printed. A mistake throws Failure (bad input); the
// first word that is wrong is named, with what was probably meant. Callbacks run inside.
[[nodiscard]] bool parse_command_line(CLI::App& app, int argc, const char* const* argv);

// Bad input: `command` needs these options. Names them, with the usage of the command.
[[noreturn]] void refuse_missing(const CLI::App& command,
                                 const std::vector<const CLI::Option*>& missing);

} // namespace assay
