#include "core/files/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "core/result.h"

namespace assay {
namespace {

constexpr std::size_t kMaxWrite = std::size_t{1} << 30; // Linux writes at most 2 GiB a call

std::string directory_of(const std::string& path) {
  const std::string directory = std::filesystem::path(path).parent_path().string();
  return directory.empty() ? "." : directory;
}

std::string partial_name(const std::string& path) {
  return directory_of(path) + "/." + std::filesystem::path(path).filename().string() + ".partial";
}

} // namespace

AtomicFile::AtomicFile(const std::string& path) : path_(path), partial_(partial_name(path)) {
  descriptor_ = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor_ < 0) give_up("created", errno);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(partial_.c_str());
}

void AtomicFile::write(const void* data, std::size_t size) {
  const char* next = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = ::write(descriptor_, next, std::min(size, kMaxWrite));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) give_up("written", written == 0 ? ENOSPC : errno);
    next += written;
    size -= static_cast<std::size_t>(written);
  }
}

void AtomicFile::commit() {
  if (::fsync(descriptor_) != 0) give_up("written", errno);
  const int descriptor = std::exchange(descriptor_, -1);
  const bool placed = ::close(descriptor) == 0 && ::rename(partial_.c_str(), path_.c_str()) == 0;
  if (!placed) give_up("put in place", errno);
  const int directory = ::open(directory_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool synced = directory >= 0 && ::fsync(directory) == 0;
  const int error = errno;
  if (directory >= 0) ::close(directory);
  if (!synced) give_up("made durable", error);
}

void AtomicFile::give_up(const char* action, int error) {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  ::unlink(partial_.c_str());
  const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  bad_input("'{}' could not be {}: {}; {}",
            path_,
            action,
            std::strerror(error),
            full ? "free space or choose another place (the previous file is unchanged)"
                 : "choose a directory that can be written");
}

void write_file_atomically(const std::string& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content);
  file.commit();
}

} // namespace assay
