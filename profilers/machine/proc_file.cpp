#include "profilers/machine/proc_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <iterator>
#include <utility>

namespace assay {

ProcFile::ProcFile(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}

ProcFile::~ProcFile() {
  if (fd_ >= 0) ::close(fd_);
}

ProcFile::ProcFile(ProcFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

ProcFile& ProcFile::operator=(ProcFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

std::optional<std::string_view> ProcFile::read(char* buffer, std::size_t size) const {
  if (fd_ < 0) return std::nullopt;
  const ssize_t got = ::pread(fd_, buffer, size, 0);
  if (got <= 0) return std::nullopt;
  return std::string_view(buffer, static_cast<std::size_t>(got));
}

std::optional<std::string> read_whole_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::optional<long long> take_count(std::string_view& text) {
  const std::size_t start = text.find_first_not_of(" \t");
  if (start == std::string_view::npos) return std::nullopt;
  long long value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data() + start, end, value);
  if (error != std::errc{} || value < 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
  return value;
}

} // namespace assay
