// Live progress of a run on stderr: one line that is rewritten on a terminal, plain lines in a
// pipe.
#pragma once

#include <chrono>
#include <string>

#include "experiments/runner.h"

namespace assay::cli {

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
