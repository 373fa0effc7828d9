#include "core/files/output_target.h"

#include <cerrno>
#include <filesystem>

#include "core/file_kind.h"
#include "core/result.h"
#include "core/sqlite/sqlite_file.h"
#include "core/system_call.h"

namespace assay {

namespace fs = std::filesystem;

namespace {

constexpr int kMostLinks = 40; // as Linux

// The last link's target need not exist.
fs::path follow(const std::string& path) {
  fs::path target = path;
  std::error_code error;
  for (int links = 0; fs::is_symlink(target, error); ++links) {
    if (links == kMostLinks) bad_input("cannot write {}: {}", path, system_cause(ELOOP));
    const fs::path next = fs::read_symlink(target, error);
    if (error) bad_input("cannot write {}: {}", path, error.message());
    target = next.is_absolute() ? next : target.parent_path() / next;
  }
  return target;
}

} // namespace

std::string output_target(const std::string& path) {
  const fs::path target = follow(path);
  if (const std::string why = why_no_plain_file(target.string()); !why.empty())
    bad_input("cannot write {}: {}; name a file", path, why);
  if (is_sqlite_file(target.string()))
    bad_input("cannot write {}: it is an SQLite file, as ledgers and traces are, and those are "
              "never replaced; name another file",
              path);
  return target.string();
}

bool is_standard_output(const std::string& path) {
  return path == "-" || path == "/dev/stdout";
}

void refuse_standard_output(const std::string& directory) {
  if (is_standard_output(directory))
    bad_input("'{}' stands for standard output, and this is a directory of files; name one",
              directory);
}

std::string write_remedy(int error) {
  switch (error) {
  case ELOOP:
    return "a link in it leads back to itself: choose another place";
  case ENOSPC:
  case EDQUOT:
    return "free some space or choose another place";
  case ENOENT:
  case ENOTDIR:
    return "make its directory first, or choose another place";
  case EACCES:
  case EPERM:
  case EROFS:
    return "choose a place that can be written";
  default: {
    const std::string remedy = limit_remedy(error);
    return remedy.empty() ? "choose another place" : remedy;
  }
  }
}

} // namespace assay
