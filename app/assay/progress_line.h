// Live progress of a run on stderr: one line that is rewritten on a terminal, plain lines in a
// pipe.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "experiments/engine/runner.h"

namespace assay::cli {

// At most `columns` wide. What does not fit goes as a whole: the bar, then a part of the cell's
// name, then the time that is left, then the round.
std::string progress_text(const RunProgress& progress, std::size_t columns);

class ProgressLine {
public:
  explicit ProgressLine(bool quiet);
  ~ProgressLine(); // leaves the terminal on a fresh line
  void show(const RunProgress& progress);

private:
  void note(const std::string& text);

  bool quiet_, terminal_, open_ = false;
  int last_launch_ = -1;
  std::chrono::steady_clock::time_point last_;
};

} // namespace assay::cli
