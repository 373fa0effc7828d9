#include "app/assay/output/run_progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/ledger/ledger.h"
#include "core/text.h"
#include "experiments/evidence/owed/plan_state.h"
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

std::string name(const RunProgress& p, std::size_t cell_columns = std::string::npos) {
  std::string text = cut_to(printable(p.cell), cell_columns) + " " +
                     numbered_launches_text(p.task.kind, {p.task.index});
  if (p.task.attempt > 0) text += fmt::format(" (attempt {})", p.task.attempt + 1);
  return text;
}

std::string launch(const RunProgress& p, std::size_t cell_columns = std::string::npos) {
  return fmt::format("{}/{}  {}", p.launch_number, p.launches, name(p, cell_columns));
}

std::string bar(const RunProgress& p) {
  const int done = p.launches > 0 ? kBarCells * (p.launch_number - 1) / p.launches : 0;
  return fmt::format("[{:=<{}}{:>{}}] ", "", done, "", kBarCells - done);
}

// Less than a second is over before it is read.
std::string eta(const RunProgress& p) {
  return p.eta_seconds.value_or(0) < 1 ? "" : "  ETA " + human_seconds(*p.eta_seconds);
}

// "waiting for a quiet machine: steal 3 % (11.0 s of 5m 0s), before CELL timed launch 3": the
// launch goes first, then the cause.
std::string waiting_text(const RunProgress& p, std::size_t columns) {
  const std::string what = "waiting for a quiet machine";
  const std::string times = fmt::format(
      " ({} of {})", human_seconds(p.waiting->seconds), human_seconds(p.waiting->limit_seconds));
  const std::string whole = what + ": " + p.waiting->cause + times;
  for (const std::string& text : {whole + ", before " + name(p), whole, what + times, what})
    if (display_width(text) <= columns) return text;
  return cut_to(what, columns);
}

} // namespace

std::string progress_text(const RunProgress& p, std::size_t columns) {
  if (p.waiting) return waiting_text(p, columns);
  const auto fits = [&](const std::string& text) { return display_width(text) <= columns; };
  const std::string rest = place(p) + eta(p);
  if (std::string whole = bar(p) + launch(p) + rest; fits(whole)) return whole;
  std::string plain = launch(p) + rest;
  if (fits(plain)) return plain;
  const std::size_t over = display_width(plain) - columns, cell = display_width(printable(p.cell));
  if (cell >= over + kLeastCell) return launch(p, cell - over) + rest;
  for (const std::string& text : {launch(p, kLeastCell) + place(p), launch(p, kLeastCell)})
    if (fits(text)) return text;
  return cut_to(launch(p, kLeastCell), columns);
}

// On a terminal a launch's rounds rewrite its line; in a pipe each launch, and each wait, has one.
void RunProgressLine::show(const RunProgress& progress, const std::string& machine) {
  if (!progress.note.empty()) note(progress.note);
  if (progress.launches == 0) return; // the note is all
  const bool waits = progress.waiting.has_value();
  const bool another = progress.launch_number != last_launch_ ||
                       progress.task.attempt != last_attempt_ || waits != waited_;
  if (!another && !line_.terminal()) return;
  last_launch_ = progress.launch_number;
  last_attempt_ = progress.task.attempt;
  waited_ = waits;
  const bool whole = line_.terminal() || waits;
  std::string text = whole ? progress_text(progress, line_.columns())
                           : launch(progress) + place(progress) + eta(progress);
  const std::string beside = "  " + machine;
  if (line_.terminal() && !machine.empty() &&
      display_width(text) + display_width(beside) <= line_.columns())
    text += beside;
  line_.show(text, another);
}

} // namespace assay::cli
