// What every program does around its work: standard streams that exist, errors in one line, an exit
// code that shows whether the output arrived.
#pragma once

#include <functional>
#include <string>

namespace assay {

// Exit codes shared by the programs (docs/cli.md).
inline constexpr int kOk = 0, kInternal = 1, kBadInput = 2, kIncomplete = 6;

// Runs `body` and returns its exit code. A Failure or any other exception becomes one line on
// stderr; output that could not be written becomes kBadInput, silently for a closed pipe.
int run_program(const std::function<int()>& body);

// "assay-view 0.1.0 (build 0123456789ab)". No commit: a worker of another commit may be the same
// build, whose results are continued.
std::string program_version(const std::string& program, const std::string& version);

// "error: …" on stderr, control characters removed; wrapped where stderr is a terminal, else in one
// line.
void print_error(const std::string& message, const char* kind = "error");
// The same of a line that says how a command goes on.
void print_note(const std::string& text);
// The command that goes on from there, below such a line: wrap_command() on a terminal, else whole.
void print_note_command(const std::string& command);

// From here on SIGINT and SIGTERM print `text` as a line on stderr, then end the program as they do
// otherwise. For commands that keep nothing of what they began. The text is kept as a pointer.
void say_when_interrupted(const char* text);

} // namespace assay
