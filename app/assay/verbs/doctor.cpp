// `assay doctor`: what this machine supports, and the reason where it does not.
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "app/assay/output/json_output.h"
#include "app/assay/output/terminal.h"
#include "app/assay/programs.h"
#include "app/assay/verbs.h"
#include "app/command_line/help.h"
#include "core/ledger/ledger.h"
#include "core/rank_environment.h"
#include "core/result.h"
#include "core/terminal_width.h"
#include "core/text.h"
#include "profilers/machine/machine_info.h"
#include "profilers/machine/noise_check.h"
#include "profilers/machine/nvml_sampler.h"

namespace assay::cli {

namespace {

using nlohmann::json;

constexpr std::size_t kTextColumn = 20; // behind "ok   " and the name
constexpr std::size_t kNarrowTextColumn = 5;

struct Check {
  std::string name;
  bool ok; // false: a feature is missing, with the reason in `text`
  std::string text;
  std::vector<std::string> lines = {}; // more of it, one below the other where people read it
  const char* mark = "no";             // in front of the name where it is not ok
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
constexpr double kNoiseSeconds = 1.5;

struct Figure {
  std::string text;     // "times vary by 2.1 %"
  double value, limit;  // of a quiet machine: below the limit
  std::string as_limit; // "4 %"

  bool is_high() const { return value >= limit; }
};

Check check_noise_level() {
  const NoiseCheck noise = check_noise(kNoiseSeconds);
  const auto percent = [](double share) { return fmt::format("{:.3g} %", share * 100); };
  // Figures of one moment: half of each limit leaves room for the minutes of a run.
  const DisturbanceLimits limits;
  const double steal_limit = limits.steal / 2, delay_limit = limits.run_delay / 2;
  std::vector<Figure> figures{
      {"times vary by " + percent(noise.spread), noise.spread, kQuietSpread, percent(kQuietSpread)},
      {fmt::format("the slowest took {:.2f} times the median", noise.slowest),
       noise.slowest,
       kQuietSlowest,
       fmt::format("{:g}", kQuietSlowest)}};
  if (noise.run_delay)
    figures.push_back({"other programs took " + percent(*noise.run_delay),
                       *noise.run_delay,
                       delay_limit,
                       percent(delay_limit)});
  if (noise.worst_steal)
    figures.push_back({"other virtual machines took " + percent(*noise.worst_steal),
                       *noise.worst_steal,
                       steal_limit,
                       percent(steal_limit)});
  Check check{"noise",
              std::ranges::none_of(figures, [](const Figure& figure) { return figure.is_high(); }),
              fmt::format("{} slices of {:.2g} ms of equal work on one core in {:g} s:",
                          noise.slices,
                          noise.median_ms,
                          kNoiseSeconds)};
  for (const Figure& figure : figures)
    check.lines.push_back(fmt::format(
        "{} (limit {}{})", figure.text, figure.as_limit, figure.is_high() ? ", exceeded" : ""));
  if (!check.ok) check.lines.push_back("stop other programs, or run with --wait-for-quiet");
  check.mark = "high";
  return check;
}

std::string whole_text(const Check& check) {
  if (check.lines.empty()) return check.text;
  return fmt::format("{} {}", check.text, fmt::join(check.lines, "; "));
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
      rows.push_back({{"name", check.name}, {"ok", check.ok}, {"text", whole_text(check)}});
    print_json({{"checks", rows}});
  } else {
    const auto width = static_cast<std::size_t>(style.width);
    const bool beside = width >= kTextColumn + kLeastColumns; // else below the name
    const std::size_t indent = beside ? kTextColumn : kNarrowTextColumn;
    for (const Check& check : checks) {
      fmt::print("{:<4} {}{}\n",
                 check.ok ? "ok" : check.mark,
                 beside ? fmt::format("{:<14} ", check.name)
                        : check.name + "\n" + std::string(kNarrowTextColumn, ' '),
                 wrap_text(printable(check.text), width, indent));
      for (const std::string& line : check.lines)
        fmt::print("{}{}\n", std::string(indent, ' '), wrap_text(line, width, indent));
    }
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
