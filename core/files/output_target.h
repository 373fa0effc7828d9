// Where a file that a person names as output is written, and what an output never replaces.
#pragma once

#include <string>

namespace assay {

// `path`, or the file that the link `path` leads to. Throws bad input where something is that is no
// plain file (a directory, a pipe, a device), or an SQLite file: ledgers and traces are measured
// rows, and no output is worth them.
std::string output_target(const std::string& path);

// "-" and "/dev/stdout": written as it comes, never under another name first.
bool is_standard_output(const std::string& path);

// Throws bad input where a directory of files is named so.
void refuse_standard_output(const std::string& directory);

// What to do about the errno with which a file could not be written.
std::string write_remedy(int error);

} // namespace assay
