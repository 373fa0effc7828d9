#include "app/assay/progress_line.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

#include "core/ledger/ledger.h"
#include "core/text.h"
#include "experiments/report/text_layout.h"

namespace assay::cli {

namespace {

constexpr int kBarCells = 20;
constexpr std::size_t kLeastCell = 8; // columns of a name that is cut

std::string place(const RunProgress& p) {
  if (p.warmup) return fmt::format("  warm-up round {}", p.warmup_round);
  if (p.rounds == 0) return "";
  const std::string disturbed = p.disturbed == 0 ? "" : fmt::format(", {} disturbed", p.disturbed);
  return fmt::format("  round {}/{}{}", p.round, p.rounds, disturbed);
}

std::string launch(const RunProgress& p, std::size_t cell_columns = std::string::npos) {
  std::string text = fmt::format("launch {}/{}  {} {} {}",
                                 p.launch_number,
                                 p.launches,
                                 cut_to(printable(p.cell), cell_columns),
                                 to_string(p.task.kind),
                                 p.task.index);
  if (p.task.attempt > 0) text += fmt::format(" (attempt {})", p.task.attempt + 1);
  return text;
}

std::string bar(const RunProgress& p) {
  const int done = p.launches > 0 ? kBarCells * (p.launch_number - 1) / p.launches : 0;
  return fmt::format("[{:=<{}}{:>{}}] ", "", done, "", kBarCells - done);
}

// Less than a second is over before it is read.
std::string eta(const RunProgress& p) {
  return p.eta_seconds.value_or(0) < 1 ? "" : "  ETA " + human_seconds(*p.eta_seconds);
}

int columns() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

} // namespace

std::string progress_text(const RunProgress& p, std::size_t columns) {
  const auto fits = [&](const std::string& text) { return display_width(text) <= columns; };
  const std::string rest = place(p) + eta(p);
  if (const std::string whole = bar(p) + launch(p) + rest; fits(whole)) return whole;
  const std::string plain = launch(p) + rest;
  if (fits(plain)) return plain;
  const std::size_t over = display_width(plain) - columns, cell = display_width(printable(p.cell));
  if (cell >= over + kLeastCell) return launch(p, cell - over) + rest;
  for (const std::string& text : {launch(p, kLeastCell) + place(p), launch(p, kLeastCell)})
    if (fits(text)) return text;
  return cut_to(launch(p, kLeastCell), columns);
}

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
    fmt::print(stderr, "{}{}{}\n", launch(progress), place(progress), eta(progress));
    return;
  }
  const auto now = std::chrono::steady_clock::now();
  if (progress.launch_number == last_launch_ && now - last_ < std::chrono::milliseconds(100))
    return;
  last_ = now;
  last_launch_ = progress.launch_number;
  fmt::print(
      stderr, "\r\033[K{}", progress_text(progress, static_cast<std::size_t>(columns() - 1)));
  std::fflush(stderr);
  open_ = true;
}

} // namespace assay::cli
