#include "core/files/atomic_file.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/result.h"

namespace assay {
namespace {

constexpr std::size_t kMaxWrite = std::size_t{1} << 30; // Linux writes at most 2 GiB a call

} // namespace

AtomicFile::AtomicFile(const std::string& path)
    : path_(path), file_(std::make_unique<TemporaryFile>(path)) {
  if (file_->error() != 0) give_up("created", file_->error());
}

AtomicFile::~AtomicFile() = default;

void AtomicFile::write(const void* data, std::size_t size) {
  const char* next = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = ::write(file_->descriptor(), next, std::min(size, kMaxWrite));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) give_up("written", written == 0 ? ENOSPC : errno);
    next += written;
    size -= static_cast<std::size_t>(written);
  }
}

void AtomicFile::commit() {
  if (const int error = file_->place(true); error != 0) give_up("put in place", error);
}

void AtomicFile::give_up(const char* action, int error) {
  file_.reset();
  const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  std::error_code ignored;
  const bool had = std::filesystem::exists(path_, ignored);
  bad_input("'{}' could not be {}: {}; {}{}",
            path_,
            action,
            std::strerror(error),
            full ? "free space or choose another place" : "choose a directory that can be written",
            full && had ? " (the previous file is unchanged)" : "");
}

void write_file_atomically(const std::string& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content);
  file.commit();
}

} // namespace assay
