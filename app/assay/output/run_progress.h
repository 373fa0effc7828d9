// What `assay run` shows while it measures.
#pragma once

#include <cstddef>
#include <string>

#include "app/command_line/progress_line.h"
#include "experiments/engine/runner.h"

namespace assay::cli {

// At most `columns` wide. What does not fit goes as a whole: the bar, then a part of the cell's
// name, then the time that is left, then the round.
std::string progress_text(const RunProgress& progress, std::size_t columns);

class RunProgressLine {
public:
  explicit RunProgressLine(bool quiet) : line_(quiet) {}
  // `machine`: what it does now, in a few words, or ""; shown on a terminal that has room for it.
  void show(const RunProgress& progress, const std::string& machine = "");
  void note(const std::string& text) { line_.note("note: " + text); }

private:
  ProgressLine line_;
  int last_launch_ = -1;
  int last_attempt_ = -1;
  bool waited_ = false; // the last thing shown was a wait
};

} // namespace assay::cli
