// Progress of `run` and `train` on stderr: one line that is rewritten on a terminal, plain lines in
// a pipe. What stands in it is the caller's.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace assay {

class ProgressLine {
public:
  explicit ProgressLine(bool quiet = false); // quiet: notes alone
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  bool terminal() const { return terminal_; }
  // Room for a text; std::string::npos in a pipe. The last column stays free, or some terminals
  // begin a new line.
  std::size_t columns() const;
  // On a terminal at most ten times a second, unless `at_once`; in a pipe every time.
  void show(const std::string& text, bool at_once);
  void note(const std::string& text); // a line that stays
  void keep();                        // the line stays, and the next text begins a new one
  void clear();                       // the line goes

private:
  bool quiet_, terminal_, open_ = false;
  std::chrono::steady_clock::time_point last_;
};

} // namespace assay
