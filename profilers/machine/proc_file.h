// ProcFile: a /proc file that is opened once and read again by pread, which costs one system call a
// sample.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace assay {

class ProcFile {
public:
  ProcFile() = default;
  explicit ProcFile(const std::string& path); // a file that cannot be opened reads as absent
  ~ProcFile();
  ProcFile(ProcFile&& other) noexcept;
  ProcFile& operator=(ProcFile&& other) noexcept;
  ProcFile(const ProcFile&) = delete;
  ProcFile& operator=(const ProcFile&) = delete;

  // The file's first bytes, at most `buffer.size()`; nothing if it cannot be read (any more).
  template <std::size_t N> std::optional<std::string_view> read(char (&buffer)[N]) const {
    return read(buffer, N);
  }

private:
  std::optional<std::string_view> read(char* buffer, std::size_t size) const;
  int fd_ = -1;
};

// A whole small file, or nothing.
std::optional<std::string> read_whole_file(const std::string& path);

// Removes the first blank-separated word from `text` and returns it as a number; nothing if it is
// none, or negative.
std::optional<long long> take_count(std::string_view& text);

} // namespace assay
