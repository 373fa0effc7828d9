// What `run` and the commands that hand over to it share: the options that limit how long a run
// takes and waits.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace assay::cli {

CLI::Validator duration(); // 90s, 9m, 1h30m

// Durations as the user wrote them ("9m"), checked; "" where the option is not given.
struct TimeLimits {
  std::string stop_after, wait_for_quiet;

  void add_to(CLI::App& command);
  std::vector<std::string> arguments() const; // that hand them on to another command
};

} // namespace assay::cli
