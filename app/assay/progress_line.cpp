#include "app/assay/progress_line.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

#include "core/ledger.h"
#include "core/text.h"

namespace assay::cli {

namespace {

constexpr int kBarCells = 20;

std::string describe(const RunProgress& p) {
  std::string text = fmt::format("launch {}/{}  {} {} {}",
                                 p.launch_number,
                                 p.launches,
                                 printable(p.cell),
                                 to_string(p.task.kind),
                                 p.task.index);
  if (p.task.attempt > 0) text += fmt::format(" (attempt {})", p.task.attempt + 1);
  if (p.warmup)
    text += fmt::format("  warm-up round {}", p.warmup_round);
  else if (p.rounds > 0)
    text += fmt::format("  round {}/{}", p.round, p.rounds);
  return text;
}

int columns() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

} // namespace

ProgressLine::ProgressLine(bool quiet) : quiet_(quiet), terminal_(::isatty(STDERR_FILENO) != 0) {}

ProgressLine::~ProgressLine() {
  if (open_) fmt::print(stderr, "\r\033[K");
}

void ProgressLine::note(const std::string& text) {
  if (open_) fmt::print(stderr, "\r\033[K");
  open_ = false;
  fmt::print(stderr, "{}\n", printable(text));
}

void ProgressLine::show(const RunProgress& progress) {
  if (!progress.note.empty()) note("note: " + progress.note);
  if (quiet_) return;
  if (!terminal_) {
    if (progress.launch_number == last_launch_) return;
    last_launch_ = progress.launch_number;
    fmt::print(stderr,
               "{}{}\n",
               describe(progress),
               progress.eta_seconds ? "  ETA " + human_seconds(*progress.eta_seconds) : "");
    return;
  }
  const auto now = std::chrono::steady_clock::now();
  if (progress.launch_number == last_launch_ && now - last_ < std::chrono::milliseconds(100))
    return;
  last_ = now;
  last_launch_ = progress.launch_number;
  const int done =
      progress.launches > 0 ? kBarCells * (progress.launch_number - 1) / progress.launches : 0;
  std::string line =
      fmt::format("[{:=<{}}{:>{}}] {}", "", done, "", kBarCells - done, describe(progress));
  if (progress.eta_seconds) line += "  ETA " + human_seconds(*progress.eta_seconds);
  fmt::print(stderr, "\r\033[K{:.{}}", line, columns() - 1);
  std::fflush(stderr);
  open_ = true;
}

} // namespace assay::cli
