#include "core/ledger/directory_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "core/files/output_target.h"
#include "core/ledger/ledger_schema.h"
#include "core/result.h"
#include "core/text.h"

namespace assay {

namespace {

std::string own_command() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string command((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  for (char& c : command)
    if (c == '\0') c = ' ';
  while (!command.empty() && command.back() == ' ') command.pop_back();
  return printable(command);
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown host";
  return name.data();
}

// Somebody may have edited the file.
std::string text_of(const nlohmann::json& holder, const char* key, const char* otherwise) {
  const auto found = holder.find(key);
  return found != holder.end() && found->is_string() ? printable(found->get<std::string>())
                                                     : otherwise;
}

// The holder writes its name after it has the lock, so that an unreadable name means "just now".
std::string holder_text(const nlohmann::json& holder) {
  if (!holder.is_object()) return "another process";
  const auto pid = holder.find("pid");
  return fmt::format("process {} ({}) on {}",
                     pid != holder.end() && pid->is_number_integer() ? pid->dump() : "?",
                     text_of(holder, "command", "?"),
                     text_of(holder, "host", "?"));
}

std::string activity_text(const nlohmann::json& holder) {
  return holder.is_object() ? text_of(holder, "activity", "") : "";
}

nlohmann::json read_holder(const std::string& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file, nullptr, false);
}

void write_holder(int fd, const std::string& activity) {
  nlohmann::json holder = {{"pid", ::getpid()}, {"host", host_name()}, {"command", own_command()}};
  if (!activity.empty()) holder["activity"] = activity;
  const std::string text =
      holder.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  // The name is a courtesy: where the disk is full the lock itself still works.
  if (::ftruncate(fd, 0) == 0) (void)!::pwrite(fd, text.data(), text.size(), 0);
}

// What `read` makes of the holder's words, or "" when nobody has the lock.
std::string of_holder(const std::string& directory,
                      const std::function<std::string(const nlohmann::json&)>& read) {
  const std::string path = (std::filesystem::path(directory) / ledger_schema::kLockName).string();
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "";
  const bool held = ::flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(fd);
  return held ? read(read_holder(path)) : "";
}

} // namespace

void make_directory(const std::string& directory) {
  refuse_standard_output(directory);
  std::error_code error;
  if (std::filesystem::exists(directory, error) && !std::filesystem::is_directory(directory, error))
    bad_input("{}: not a directory; choose another one with --out", directory);
  std::filesystem::create_directories(directory, error);
  if (error)
    bad_input("{}: cannot be created ({}); choose another directory with --out",
              directory,
              error.message());
}

int lock_directory(const std::string& directory) {
  const std::string path = (std::filesystem::path(directory) / ledger_schema::kLockName).string();
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (fd < 0)
    bad_input("{}: cannot be written ({}); choose a results directory that can be written",
              path,
              std::strerror(errno));
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) {
    write_holder(fd, "");
    return fd;
  }
  const int error = errno;
  ::close(fd);
  if (error != EWOULDBLOCK) bad_input("{}: cannot be locked ({})", path, std::strerror(error));
  bad_input(
      "{} is in use by {}; wait for it or stop it", directory, holder_text(read_holder(path)));
}

void tell_activity(int lock, const std::string& activity) {
  write_holder(lock, activity);
}

std::string lock_holder(const std::string& directory) {
  return of_holder(directory, holder_text);
}

std::string lock_holder_activity(const std::string& directory) {
  return of_holder(directory, activity_text);
}

} // namespace assay
