#include "core/file_kind.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

#include "core/system_call.h"

namespace assay {

namespace {

namespace fs = std::filesystem;

const char* kind_of(fs::file_type type) {
  switch (type) {
  case fs::file_type::directory:
    return "a directory";
  case fs::file_type::fifo:
    return "a pipe";
  case fs::file_type::socket:
    return "a socket";
  case fs::file_type::character:
  case fs::file_type::block:
    return "a device";
  default:
    return "no plain file";
  }
}

} // namespace

std::string why_no_plain_file(const std::string& path) {
  std::error_code ignored;
  const fs::file_type type = fs::status(path, ignored).type();
  for (const fs::file_type other : {fs::file_type::none,
                                    fs::file_type::not_found,
                                    fs::file_type::regular,
                                    fs::file_type::unknown})
    if (type == other) return "";
  return std::string("it is ") + kind_of(type);
}

std::string why_unreachable(const std::string& path) {
  struct stat there {};
  const bool known = ::stat(path.c_str(), &there) == 0 || errno == ENOENT || errno == ENOTDIR;
  return known ? "" : system_cause(errno);
}

} // namespace assay
