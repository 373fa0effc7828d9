// The text of a system call's error, with the next action where the cause is a limit of the
// process.
#pragma once

#include <cerrno>
#include <cstring>
#include <string>

namespace assay {

inline constexpr const char* kMoreFilesRemedy = "allow more open files (ulimit -n)";

// "No such file or directory"; "Too many open files; allow more open files (ulimit -n)".
inline std::string system_error_text(int error) {
  std::string text = std::strerror(error);
  if (error == EMFILE || error == ENFILE) text += std::string("; ") + kMoreFilesRemedy;
  return text;
}

} // namespace assay
