// Where the other programs and the shipped data are: beside this executable, in the build tree or
// in an installation.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace assay::cli {

std::string
program_path(const std::string& name);      // throws Failure naming the target that builds it
bool find_program(const std::string& name); // whether it is there
std::string data_directory(const std::string& name); // "claims" or "matrices"

// This process's own command line as a shell reads it back, the program by its name alone.
std::string command_line();

// Replaces this process. Returns only by throwing.
[[noreturn]] void exec_program(const std::string& program,
                               const std::vector<std::string>& arguments);

// Replaces this process where the first word is a verb of another program ("train", "view"): that
// one reads the rest as it was typed, "--" included, which a parser here would drop.
void forward_to_program(const std::vector<std::string>& words);

// Runs a program on this one's terminal and returns its exit code; -1 when it did not start or was
// killed.
int call(const std::string& program, const std::vector<std::string>& arguments);

// Standard output of a program that must succeed; throws Failure otherwise, bad input where the
// program has refused it in its own words on standard error.
std::string capture(const std::string& program, const std::vector<std::string>& arguments);

// The worker's own description (build, libtorch, cuda, gpu …); throws Failure when it is not
// built or does not start.
nlohmann::json worker_identity();
// Of that worker; "" where there is none, or it does not start.
std::string installed_worker_build();

} // namespace assay::cli
