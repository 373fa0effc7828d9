#include "core/files/temporary_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <random>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace assay {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kSuffix = ".partial";
constexpr int kTries = 100; // names; each is one of 2^64

fs::path directory_of(const std::string& target) {
  const fs::path directory = fs::path(target).parent_path();
  return directory.empty() ? fs::path(".") : directory;
}

std::string prefix_of(const std::string& target) {
  return "." + fs::path(target).filename().string() + ".";
}

// A writer locks its file, which the kernel frees when it dies.
void remove_abandoned(const std::string& target) {
  const std::string prefix = prefix_of(target);
  std::error_code error;
  for (fs::directory_iterator entry(directory_of(target), error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(prefix) || !is_temporary_name(name)) continue;
    const int fd = ::open(entry->path().c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) continue;
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) {
      ::unlink(entry->path().c_str());
      ::unlink((entry->path().string() + "-journal").c_str()); // SQLite's, if it was a database
    }
    ::close(fd);
  }
}

// Whether the open file still has its name: between creation and lock another writer may have
// taken it for an abandoned one.
bool has_name(int descriptor) {
  struct stat status {};
  return ::fstat(descriptor, &status) == 0 && status.st_nlink > 0;
}

} // namespace

bool is_temporary_name(const std::string& name) {
  return name.starts_with('.') && name.ends_with(kSuffix);
}

TemporaryFile::TemporaryFile(const std::string& target) : target_(target) {
  remove_abandoned(target);
  std::random_device random;
  for (int i = 0; i < kTries; ++i) {
    path_ = (directory_of(target) /
             fmt::format("{}{:08x}{:08x}{}", prefix_of(target), random(), random(), kSuffix))
                .string();
    descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    error_ = descriptor_ < 0 ? errno : 0;
    if (error_ == EEXIST) continue;
    if (error_ != 0) return;
    (void)::flock(descriptor_, LOCK_EX | LOCK_NB); // without locks nobody sweeps
    if (has_name(descriptor_)) return;
    ::close(std::exchange(descriptor_, -1));
  }
  error_ = EEXIST;
}

TemporaryFile::~TemporaryFile() {
  if (descriptor_ < 0) return;
  ::unlink(path_.c_str());
  ::close(descriptor_);
}

int TemporaryFile::place(bool durable) {
  int error = durable && ::fsync(descriptor_) != 0 ? errno : 0;
  if (error == 0 && ::rename(path_.c_str(), target_.c_str()) != 0) error = errno;
  if (error != 0) ::unlink(path_.c_str());
  if (::close(std::exchange(descriptor_, -1)) != 0 && error == 0) error = errno;
  if (error != 0 || !durable) return error;
  const int directory = ::open(directory_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return errno;
  if (::fsync(directory) != 0 && errno != EINVAL) error = errno; // EINVAL: it cannot be synced
  ::close(directory);
  return error;
}

} // namespace assay
