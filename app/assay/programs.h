// Where the other programs and the shipped data are: beside this executable, in the build tree or
// in an installation.
#pragma once

#include <string>
#include <vector>

namespace assay::cli {

std::string
program_path(const std::string& name); // throws Failure naming the target that builds it
std::string data_directory(const std::string& name); // "claims" or "matrices"

// This process's own command line, as typed, the program by its name alone.
std::string command_line();

// Replaces this process. Returns only by throwing.
[[noreturn]] void exec_program(const std::string& program,
                               const std::vector<std::string>& arguments);

// Standard output of a program that must succeed; throws Failure with its error text otherwise.
std::string capture(const std::string& program, const std::vector<std::string>& arguments);

} // namespace assay::cli
