#include "app/command_line/progress_line.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

#include "app/command_line/program.h"
#include "core/terminal_width.h"

namespace assay {

namespace {

constexpr auto kLeastInterval = std::chrono::milliseconds(100);

} // namespace

ProgressLine::ProgressLine(bool quiet) : quiet_(quiet), terminal_(::isatty(STDERR_FILENO) != 0) {}

std::size_t ProgressLine::columns() const {
  if (!terminal_) return std::string::npos;
  winsize size{};
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return static_cast<std::size_t>(known ? size.ws_col : kUsualColumns) - 1;
}

void ProgressLine::show(const std::string& text, bool at_once) {
  if (quiet_) return;
  if (!terminal_) {
    fmt::print(stderr, "{}\n", text);
    return;
  }
  const auto now = std::chrono::steady_clock::now();
  if (!at_once && now - last_ < kLeastInterval) return;
  last_ = now;
  fmt::print(stderr, "\r\033[K{}", text);
  std::fflush(stderr);
  open_ = true;
}

void ProgressLine::note(const std::string& text) {
  clear();
  print_note(text);
}

void ProgressLine::keep() {
  if (open_) fmt::print(stderr, "\n");
  open_ = false;
}

void ProgressLine::clear() {
  if (open_) fmt::print(stderr, "\r\033[K");
  open_ = false;
}

} // namespace assay
