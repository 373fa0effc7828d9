// `assay doctor`: what this machine supports, and the reason where it does not.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "app/assay/json_output.h"
#include "app/assay/programs.h"
#include "app/assay/terminal.h"
#include "app/assay/verbs.h"
#include "app/command_line/help.h"
#include "core/ledger/ledger.h"
#include "core/rank_environment.h"
#include "core/result.h"
#include "core/text.h"
#include "profilers/machine/machine_info.h"
#include "profilers/machine/noise_check.h"
#include "profilers/machine/nvml_sampler.h"

namespace assay::cli {

namespace {

using nlohmann::json;

constexpr std::size_t kTextColumn = 20; // behind "ok   " and the name

struct Check {
  std::string name;
  bool ok; // false: a feature is missing, with the reason in `text`
  std::string text;
};

Check check_worker() {
  try {
    const json identity = worker_identity();
    const std::string gpu = identity.at("gpu");
    return {"worker",
            true,
            fmt::format("LibTorch {}, build {}, {}",
                        identity.at("libtorch").get<std::string>(),
                        identity.at("build").get<std::string>().substr(0, 12),
                        gpu.empty()
                            ? "no usable CUDA GPU: experiments run with --device cpu"
                            : "CUDA " + identity.at("cuda").get<std::string>() + " on " + gpu)};
  } catch (const std::exception& error) {
    return {"worker", false, error.what()};
  }
}

Check check_gpus() {
  const Result<std::vector<GpuInfo>> gpus = list_gpus();
  if (!gpus) return {"GPU (NVML)", false, gpus.error().message};
  std::string text;
  for (const GpuInfo& gpu : *gpus)
    text += fmt::format("{}{} (driver {})", text.empty() ? "" : ", ", gpu.name, gpu.driver);
  return {"GPU (NVML)", !gpus->empty(), gpus->empty() ? "the driver reports no GPU" : text};
}

// Whether cells with several ranks can run here, and how.
Check check_ranks() {
  const auto environment = read_rank_environment();
  if (!environment) return {"ranks", false, environment.error().message};
  if (*environment)
    return {"ranks",
            true,
            fmt::format("a launcher started {} ranks; this is rank {}, rank 0's store is at {}:{}",
                        (*environment)->size,
                        (*environment)->rank,
                        (*environment)->address,
                        (*environment)->port)};
  const Result<std::vector<GpuInfo>> gpus = list_gpus();
  const std::size_t boards = gpus ? gpus->size() : 0;
  if (boards >= 2)
    return {"ranks",
            true,
            fmt::format("{} GPUs: cells may set `ranks` up to {}; `assay run "
                        "experiments/matrices/ddp.toml` uses two (docs/ddp.md)",
                        boards,
                        boards)};
  return {"ranks",
          true,
          fmt::format("{}: cells with several ranks run on the CPU only, for example `assay run "
                      "experiments/matrices/ddp-cpu.toml` (docs/ddp.md)",
                      boards == 1 ? "one GPU" : "no GPU")};
}

// Only building needs it.
Check check_compiler() {
  std::istringstream path(std::getenv("PATH") != nullptr ? std::getenv("PATH") : "");
  std::vector<std::string> folders{"/usr/local/cuda/bin"};
  for (std::string folder; std::getline(path, folder, ':');) folders.push_back(folder);
  for (const std::string& folder : folders)
    if (::access((folder + "/nvcc").c_str(), X_OK) == 0)
      return {"CUDA compiler", true, folder + "/nvcc"};
  return {"CUDA compiler",
          false,
          "no nvcc here; only building needs one, and `make build` then takes 13.0 from PyPI"};
}

constexpr double kQuietSpread = 0.04;
constexpr double kQuietSlowest = 4; // slices of a millisecond: the scheduler took the core away

Check check_noise_level() {
  const NoiseCheck noise = check_noise();
  std::string text =
      fmt::format("a fixed {:.2g} ms of work varies by {:.1f} %, the slowest took x{:.2f}",
                  noise.median_ms,
                  noise.spread * 100,
                  noise.slowest);
  if (noise.run_delay)
    text += fmt::format("; {:.1f} % of the time lost to other programs", *noise.run_delay * 100);
  if (noise.worst_steal)
    text += fmt::format(", {:.1f} % to other virtual machines", *noise.worst_steal * 100);
  // Figures of one moment: half of each limit leaves room for the minutes of a run.
  const DisturbanceLimits limits;
  const bool quiet = noise.spread < kQuietSpread && noise.slowest < kQuietSlowest &&
                     noise.run_delay.value_or(0) < limits.run_delay / 2 &&
                     noise.worst_steal.value_or(0) < limits.steal / 2;
  return {"noise",
          quiet,
          quiet ? "quiet: " + text
                : "noisy: " + text +
                      fmt::format("; quiet is less than half of the limits ({:.0f} % lost to other "
                                  "programs, {:.0f} % to other virtual machines): stop other "
                                  "programs, or run with --wait-for-quiet",
                                  100 * limits.run_delay,
                                  100 * limits.steal)};
}

int doctor(bool as_json, const TableStyle& style) {
  const MachineInfo machine = machine_info();
  std::vector<Check> checks;
  checks.push_back(
      {"machine",
       true,
       fmt::format("{}, {} of {} cores usable, {}, {}{}",
                   machine.cpu,
                   machine.usable_cores,
                   machine.cores,
                   machine.memory_bytes ? human_bytes(static_cast<double>(*machine.memory_bytes))
                                        : "memory unknown",
                   machine.os,
                   machine.virtualised.value_or(false) ? ", virtual machine" : "")});
  checks.push_back(check_worker());
  checks.push_back(check_gpus());
  checks.push_back(check_ranks());
  checks.push_back(check_compiler());
  checks.push_back(check_noise_level());
  if (as_json) {
    json rows = json::array();
    for (const Check& check : checks)
      rows.push_back({{"name", check.name}, {"ok", check.ok}, {"text", check.text}});
    print_json({{"checks", rows}});
  } else {
    const auto width = static_cast<std::size_t>(style.width);
    for (const Check& check : checks)
      fmt::print("{} {:<14} {}\n",
                 check.ok ? "ok  " : "no  ",
                 check.name,
                 wrap_text(printable(check.text), width, kTextColumn));
  }
  return checks[1].ok ? kOk : kBadInput;
}

} // namespace

void add_doctor(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("doctor", "what this machine supports, and the reason where it does not");
  struct Options {
    bool json = false;
    TerminalOptions terminal;
  };
  auto options = std::make_shared<Options>();
  command->add_flag("--json", options->json, "print JSON");
  options->terminal.add_to(*command, false);
  command->callback(
      [options, &exit_code] { exit_code = doctor(options->json, options->terminal.style()); });
}

} // namespace assay::cli
