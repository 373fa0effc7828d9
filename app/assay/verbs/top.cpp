// `assay top`: what this machine does now, in one view: cores, memory, boards, and the processes
// that use them, with what a training among them has last logged.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <tuple>
#include <utility>

#include "app/assay/output/json_output.h"
#include "app/assay/output/terminal.h"
#include "app/assay/verbs.h"
#include "app/value_checks.h"
#include "core/text.h"
#include "profilers/machine/machine_info.h"
#include "profilers/monitor/boards.h"
#include "profilers/monitor/meter_values.h"
#include "profilers/monitor/process_table.h"
#include "profilers/monitor/train_rows.h"

namespace assay::cli {

namespace {

using nlohmann::json;

constexpr std::size_t kMostProcesses = 12; // besides those of Assay and of the boards

// A process with what else the machine knows of it.
struct Process {
  ProcessUse use;
  std::vector<std::pair<std::size_t, std::int64_t>> gpu_bytes = {}; // board, bytes
  std::string training = {};        // directory of its train.csv, or ""
  std::optional<TrainRow> row = {}; // the last one there

  bool is_assay() const { return use.name.starts_with("assay"); }
  std::int64_t all_gpu_bytes() const {
    std::int64_t sum = 0;
    for (const auto& [board, bytes] : gpu_bytes) sum += bytes;
    return sum;
  }
};

class Machine {
public:
  Machine() : info_(machine_info()), host_(machine_meters()), host_values_(metrics_of(host_)) {
    Result<std::vector<Board>> boards = open_boards();
    if (!boards)
      no_board_ = boards.error().message;
    else
      boards_ = std::move(*boards);
    if (boards && boards_.empty()) no_board_ = "the driver reports no GPU";
    for (const Board& board : boards_) board_values_.emplace_back(metrics_of(board.meters));
  }

  // Shares and rates are of the time since the call before.
  void read() {
    read_meters(host_, host_values_);
    for (std::size_t i = 0; i < boards_.size(); ++i)
      read_meters(boards_[i].meters, board_values_[i]);
    processes_ = read_processes();
  }

  std::string text(const TableStyle& style) const {
    TextWriter out(style);
    out.line(fmt::format("{}, {}, {} core{}: {}",
                         printable(info_.host),
                         local_time(),
                         info_.usable_cores,
                         info_.usable_cores == 1 ? "" : "s",
                         host_text(host_values_)));
    if (const std::string cores = cores_text(); !cores.empty()) out.line(cores, 2);
    for (std::size_t i = 0; i < boards_.size(); ++i)
      out.line(board_text(board_values_[i]),
               0,
               fmt::format("GPU {} {}: ", i, printable(boards_[i].info.name)));
    if (!no_board_.empty()) out.line(no_board_, 0, "no GPU: ");
    out.raw("");
    std::vector<std::vector<std::string>> rows{
        {"pid", "cores", "memory", "GPU memory", "what it does"}};
    for (const Process& process : processes_) rows.push_back(row(process));
    out.columns(rows, {true, true, true, true, false}, 2);
    bool any = false;
    for (const Process& process : processes_) {
      if (!process.row) continue;
      if (!std::exchange(any, true)) out.raw("\nTrainings");
      out.line(train_row_text(*process.row),
               2,
               fmt::format("{} {}: ", process.use.pid, printable(plain_path(process.training))));
    }
    return out.take();
  }

  json as_json() const {
    json boards = json::array(), processes = json::array();
    for (std::size_t i = 0; i < boards_.size(); ++i)
      boards.push_back({{"index", i},
                        {"name", boards_[i].info.name},
                        {"uuid", boards_[i].info.uuid},
                        {"memory_bytes", boards_[i].info.memory_bytes},
                        {"meters", meters_json(board_values_[i])}});
    for (const Process& process : processes_) processes.push_back(process_json(process));
    return {{"time_utc", utc_now()},
            {"host", info_.host},
            {"cpu", info_.cpu},
            {"cores", info_.usable_cores},
            {"meters", meters_json(host_values_)},
            {"gpus", boards},
            {"no_gpu", no_board_.empty() ? json() : json(no_board_)},
            {"processes", processes}};
  }

private:
  static std::string local_time() {
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    ::localtime_r(&now, &parts);
    char text[16] = {};
    std::strftime(text, sizeof text, "%H:%M:%S", &parts);
    return text;
  }

  // "cores 98 96 4 0 %", where there are several.
  std::string cores_text() const {
    std::string text;
    for (int core = 0; core < info_.cores; ++core)
      if (const auto busy = host_values_.value(fmt::format("CPU {} busy [%]", core)))
        text += fmt::format("{:.0f} ", *busy);
    return info_.cores < 2 || text.empty() ? "" : "cores " + text + "%";
  }

  std::vector<Process> read_processes() {
    std::vector<std::map<int, std::int64_t>> on_boards;
    for (const Board& board : boards_) on_boards.push_back(board.memory_of_processes());
    std::vector<Process> processes;
    for (ProcessUse& use : table_.read()) {
      Process process{.use = std::move(use)};
      for (std::size_t i = 0; i < on_boards.size(); ++i)
        if (const auto found = on_boards[i].find(process.use.pid); found != on_boards[i].end())
          process.gpu_bytes.emplace_back(i, found->second);
      processes.push_back(std::move(process));
    }
    std::ranges::stable_sort(processes, std::greater(), [](const Process& process) {
      return std::tuple(process.all_gpu_bytes(),
                        process.is_assay(),
                        process.use.cores.value_or(0),
                        process.use.resident_bytes);
    });
    std::size_t others = 0;
    std::erase_if(processes, [&](const Process& process) {
      return process.gpu_bytes.empty() && !process.is_assay() && ++others > kMostProcesses;
    });
    for (Process& process : processes) {
      if (!process.is_assay()) continue;
      const std::string log = open_file_of(process.use.pid, kTrainLogName);
      if (log.empty()) continue;
      process.training = std::filesystem::path(log).parent_path();
      process.row = last_train_row(log);
    }
    return processes;
  }

  static std::vector<std::string> row(const Process& process) {
    const ProcessUse& use = process.use;
    const std::int64_t gpu = process.all_gpu_bytes();
    return {std::to_string(use.pid),
            use.cores ? fmt::format("{:.2f}", *use.cores) : "-",
            human_bytes(static_cast<double>(use.resident_bytes)),
            gpu == 0 ? "-" : human_bytes(static_cast<double>(gpu)),
            printable(what(process))};
  }

  static std::string what(const Process& process) {
    if (process.training.empty())
      return process.use.command.empty() ? process.use.name : process.use.command;
    return "train " + plain_path(process.training);
  }

  static json meters_json(const MeterValues& values) {
    json meters = json::array();
    for (std::size_t i = 0; i < values.metrics().size(); ++i) {
      const TelemetryMetric& metric = values.metrics()[i];
      const std::optional<double> value = values.value(i);
      meters.push_back({{"name", metric.name},
                        {"source", metric.source},
                        {"status", metric.status},
                        {"value", value ? json(*value) : json()}});
    }
    return meters;
  }

  static json process_json(const Process& process) {
    json boards = json::array();
    for (const auto& [board, bytes] : process.gpu_bytes)
      boards.push_back({{"gpu", board}, {"bytes", bytes}});
    const ProcessUse& use = process.use;
    return {{"pid", use.pid},
            {"name", use.name},
            {"command", use.command},
            {"cores", use.cores ? json(*use.cores) : json()},
            {"resident_bytes", use.resident_bytes},
            {"gpu_memory", boards},
            {"training", process.training.empty() ? json() : json(process.training)},
            {"last_row", process.row ? json(*process.row) : json()}};
  }

  MachineInfo info_;
  std::vector<TelemetryMeter> host_;
  MeterValues host_values_;
  std::vector<Board> boards_;
  std::vector<MeterValues> board_values_;
  std::string no_board_; // why there is no board, or ""
  ProcessTable table_;
  std::vector<Process> processes_;
};

struct TopOptions {
  bool json = false, once = false;
  double interval = 2;
  TerminalOptions terminal;
};

void top(const TopOptions& options) {
  const bool once = options.once || options.json;
  const bool terminal = ::isatty(STDOUT_FILENO) != 0;
  Machine machine;
  machine.read(); // shares need two readings
  for (;;) {
    std::this_thread::sleep_for(std::chrono::duration<double>(options.interval));
    machine.read();
    if (options.json) return print_json(machine.as_json());
    fmt::print(
        "{}{}", terminal && !once ? "\033[H\033[J" : "", machine.text(options.terminal.style()));
    if (once) return;
    if (!terminal) fmt::print("\n");
    std::fflush(stdout);
  }
}

} // namespace

void add_top(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "top", "what this machine does now: cores, memory, GPUs, processes and their trainings");
  auto options = std::make_shared<TopOptions>();
  command->add_option("--interval", options->interval, "seconds between readings (default: 2)")
      ->type_name("SECONDS")
      ->check(at_least(0.1));
  command->add_flag("--once", options->once, "print one reading of an interval and end");
  command->add_flag("--json", options->json, "the same as JSON");
  options->terminal.add_to(*command);
  command->callback([options] { top(*options); });
}

} // namespace assay::cli
