#include "experiments/demo/staged_directory.h"

#include <stdlib.h> // mkdtemp

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "core/files/rename_new.h"
#include "core/result.h"

namespace assay {

namespace fs = std::filesystem;

namespace {

constexpr const char* kFolder = ".demo-"; // hidden, so that no command takes it for results

bool holds_something(const fs::path& directory) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error))
    if (!entry.path().filename().string().starts_with(kFolder)) return true;
  return false;
}

} // namespace

StagedDirectory::StagedDirectory(const std::string& target) : target_(target) {
  std::error_code error;
  const bool there = fs::exists(target_, error);
  if (there && (!fs::is_directory(target_, error) || holds_something(target_)))
    bad_input(
        "{}: is not an empty directory; the demo never writes over anything: name another one",
        target_);
  made_target_ = fs::create_directories(target_, error);
  path_ = (fs::path(target_) / (std::string(kFolder) + "XXXXXX")).string();
  if (error || ::mkdtemp(path_.data()) == nullptr)
    bad_input("{}: cannot be made or written: {}; name another directory",
              target_,
              error ? error.message() : std::strerror(errno));
}

StagedDirectory::~StagedDirectory() {
  std::error_code ignored; // the error under way says more
  fs::remove_all(path_, ignored);
  if (made_target_) fs::remove(target_, ignored); // stays when something is in it
}

void StagedDirectory::place(const std::string& first) {
  const auto move = [&](const fs::path& from) {
    const fs::path to = fs::path(target_) / from.filename();
    const int error = rename_new(from, to);
    if (error == 0) return;
    bad_input("{}: {}",
              target_,
              error == EEXIST ? "another demo was written there meanwhile; name another directory"
                              : std::strerror(error));
  };
  move(fs::path(path_) / first);
  std::vector<fs::path> others;
  for (const auto& entry : fs::directory_iterator(path_)) others.push_back(entry.path());
  for (const fs::path& path : others) move(path);
}

} // namespace assay
