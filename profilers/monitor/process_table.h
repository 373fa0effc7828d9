// ProcessTable: what the processes of this machine use, from /proc.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace assay {

struct ProcessUse {
  int pid = 0;
  std::string name;                 // of the program, at most 15 letters
  std::string command;              // its words, with blanks between them
  std::optional<double> cores = {}; // busy since the reading before: 1 is one core
  std::int64_t resident_bytes = 0;  // of main memory
};

class ProcessTable {
public:
  explicit ProcessTable(std::string proc = "/proc"); // another root: canned files in tests

  // All that can be read, threads of the kernel left out.
  std::vector<ProcessUse> read();

private:
  struct Ticks {
    long long busy = 0, started = 0; // a number is used again: the start tells processes apart
  };
  std::string proc_;
  std::map<int, Ticks> last_;
  std::chrono::steady_clock::time_point read_at_{};
};

// The first file called `name` that the process has open, as a whole path; "" where it has none, or
// may not be asked.
std::string open_file_of(int pid, const std::string& name, const std::string& proc = "/proc");

} // namespace assay
