// What stands where a file is read or written.
#pragma once

#include <string>

namespace assay {

// "it is a pipe", also for devices, sockets and directories; "" for a plain file and where nothing
// is. Reading a pipe would wait without end.
std::string why_no_plain_file(const std::string& path);

// "Permission denied", "Too many levels of symbolic links": why nobody can say what is there. ""
// for whatever can be looked at, and where nothing is.
std::string why_unreachable(const std::string& path);

} // namespace assay
