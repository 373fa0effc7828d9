// What the fuzzers share: a folder in memory that ends with the process, bytes written to a file,
// and what a reader may do with a bad one: return an Error or throw a Failure, with a message.
// Anything else is a finding.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "core/result.h"

namespace assay::fuzz {

class Folder {
public:
  Folder() : path_(fmt::format("/dev/shm/assay-fuzz-{}", ::getpid())) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string string() const { return path_.string(); }

private:
  std::filesystem::path path_;
};

inline const Folder& folder() {
  static const Folder folder;
  return folder;
}

inline void write_file(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void must_say_why(const std::string& message) {
  if (!message.empty()) return;
  std::fputs("refused without a message\n", stderr);
  std::abort();
}

// Calls a reader that returns Result<…>.
template <class Read> void try_to(const Read& read) {
  try {
    const auto result = read();
    if (!result) must_say_why(result.error().message);
  } catch (const Failure& failure) {
    must_say_why(failure.what());
  }
}

} // namespace assay::fuzz
