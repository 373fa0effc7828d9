#include "app/assay/time_limits.h"

#include "experiments/plan/matrix/matrix.h"

namespace assay::cli {

CLI::Validator duration() {
  return CLI::Validator(
      [](const std::string& text) -> std::string {
        const Result<double> seconds = parse_duration(text);
        return seconds ? "" : seconds.error().message;
      },
      "");
}

void TimeLimits::add_to(CLI::App& command) {
  command
      .add_option("--stop-after", stop_after, "stop cleanly after about this long: 90s, 9m, 1h30m")
      ->check(duration());
  command
      .add_flag("--wait-for-quiet{10m}",
                wait_for_quiet,
                "wait until the machine is quiet, at most TIME (default 10m), then continue")
      ->type_name("TIME")
      ->check(duration());
}

std::vector<std::string> TimeLimits::arguments() const {
  std::vector<std::string> words;
  if (!stop_after.empty()) words.insert(words.end(), {"--stop-after", stop_after});
  if (!wait_for_quiet.empty()) words.push_back("--wait-for-quiet=" + wait_for_quiet);
  return words;
}

} // namespace assay::cli
