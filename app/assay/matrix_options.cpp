#include "app/assay/matrix_options.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>

#include "app/assay/programs.h"
#include "app/command_line/assignments.h"
#include "app/value_checks.h"
#include "core/files/toml_text.h"
#include "core/result.h"
#include "experiments/plan/matrix/matrix.h"
#include "experiments/plan/matrix/toml_reader.h"
#include "profilers/machine/nvml_sampler.h"

namespace assay::cli {

// Of the machine's GPUs the least, since the plan does not know yet on which one the worker will
// run; 0 where there is none.
PlanOptions plan_options() {
  PlanOptions options{.claims_directory = data_directory("claims"),
                      .command = command_line(),
                      .directory = std::filesystem::current_path().string()};
  const Result<std::vector<GpuInfo>> gpus = list_gpus();
  const auto least = [](auto& known, auto value) {
    if (known == 0 || (value != 0 && value < known)) known = value;
  };
  if (gpus)
    for (const GpuInfo& gpu : *gpus) {
      least(options.device_memory_bytes, gpu.memory_bytes);
      least(options.device_capability, gpu.capability);
    }
  return options;
}

void MatrixOptions::add_to(CLI::App& command) {
  command.add_option("matrix", matrix_, "matrix file (docs/matrix.md), or - for standard input")
      ->required();
  command.add_option("--data", data_, "training data: same as --set base.data=PATH")
      ->check(utf8_path());
  one_of(command.add_option("--device", device_, "where it runs: same as --set base.device=…"),
         {"cpu", "cuda"});
  command
      .add_option(
          "--launches",
          launches_,
          "timed launches per cell without its own, or `auto`: as --set experiment.launches=N")
      ->check(launch_count())
      ->type_name("N|auto");
  command
      .add_option("--set",
                  overrides_,
                  "override a value of the matrix: base.seq_len=256, experiment.seed=7, "
                  "measure.sesoi=\"0.5%\"")
      ->type_name("TABLE.KEY=VALUE");
}

Plan MatrixOptions::load(const PlanRequest& request) const {
  std::vector<std::string> overrides = overrides_;
  std::map<std::string, std::string> set_by;
  const auto shorten = [&](const char* option, const std::string& key, const std::string& value) {
    overrides.push_back(fmt::format("{}={}", key, value));
    set_by.emplace(key, option);
  };
  if (!data_.empty()) shorten("--data", "base.data", toml_string(data_));
  if (!device_.empty()) shorten("--device", "base.device", toml_string(device_));
  if (!launches_.empty()) shorten("--launches", "experiment.launches", launches_);
  if (const std::string twice = why_set_twice(overrides_, set_by); !twice.empty())
    bad_input("{}", twice);
  overrides.insert(overrides.end(), request.settings.begin(), request.settings.end());
  if (!text_) text_ = value_or_throw(read_text_file(matrix_));
  PlanOptions options = plan_options();
  options.needs_data = request.needs_data;
  options.cells = request.cells;
  if (!request.command.empty()) options.command = request.command;
  return value_or_throw(make_plan(MatrixText{*text_, text_file_name(matrix_), overrides}, options));
}

} // namespace assay::cli
