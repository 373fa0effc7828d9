#include "app/assay/matrix_options.h"

#include <fmt/format.h>

#include <filesystem>

#include "app/assay/programs.h"
#include "app/number_checks.h"
#include "core/files/toml_text.h"
#include "core/result.h"
#include "experiments/plan/matrix.h"
#include "profilers/machine/nvml_sampler.h"

namespace assay::cli {

namespace {

// Of the machine's GPUs, since the plan does not know yet on which one the worker will run; 0 where
// there is none.
std::int64_t smallest_gpu_bytes() {
  const Result<std::vector<GpuInfo>> gpus = list_gpus();
  std::int64_t smallest = 0;
  if (gpus)
    for (const GpuInfo& gpu : *gpus)
      if (smallest == 0 || gpu.memory_bytes < smallest) smallest = gpu.memory_bytes;
  return smallest;
}

} // namespace

void MatrixOptions::add_to(CLI::App& command) {
  command.add_option("matrix", matrix_, "matrix file (docs/matrix.md), or - for standard input")
      ->required();
  command.add_option("--data", data_, "training data: same as --set base.data=PATH");
  one_of(command.add_option("--device", device_, "where it runs: same as --set base.device=…"),
         {"cpu", "cuda"});
  command
      .add_option(
          "--launches", launches_, "timed launches per cell: same as --set experiment.launches=N")
      ->check(whole_number(1, 1'000'000));
  command
      .add_option("--set",
                  overrides_,
                  "override a value of the matrix: base.seq_len=256, experiment.seed=7, "
                  "measure.sesoi=\"0.5%\"")
      ->type_name("TABLE.KEY=VALUE");
}

Plan MatrixOptions::load(bool needs_data) const {
  std::vector<std::string> overrides = overrides_;
  if (!data_.empty()) overrides.push_back("base.data=" + toml_string(data_));
  if (!device_.empty()) overrides.push_back("base.device=" + toml_string(device_));
  if (launches_ > 0) overrides.push_back(fmt::format("experiment.launches={}", launches_));
  const Matrix matrix = value_or_throw(load_matrix(matrix_, overrides));
  return value_or_throw(make_plan(matrix,
                                  {.claims_directory = data_directory("claims"),
                                   .command = command_line(),
                                   .directory = std::filesystem::current_path().string(),
                                   .device_memory_bytes = smallest_gpu_bytes(),
                                   .needs_data = needs_data}));
}

} // namespace assay::cli
