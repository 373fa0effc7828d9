// `assay status`: progress of a results directory.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <thread>

#include "app/assay/json_output.h"
#include "app/assay/verbs.h"
#include "core/ledger/directory_lock.h"
#include "core/ledger/ledger.h"
#include "core/result.h"
#include "core/text.h"
#include "experiments/analysis/report.h"
#include "experiments/engine/eta.h"
#include "experiments/evidence/plan_state.h"

namespace assay::cli {

namespace {

using nlohmann::json;

struct Status {
  Report report;
  PlanProgress progress;
  std::string engine; // who runs it now, or ""
  std::optional<double> eta_seconds;
  std::set<std::int64_t> interrupted; // launches that were stopped from outside

  const LaunchSummary* running() const {
    for (const LaunchSummary& launch : report.launches)
      if (launch.row.state == LaunchState::Running && !engine.empty()) return &launch;
    return nullptr;
  }
  std::string state_of(const LaunchRow& launch) const {
    if (launch.state == LaunchState::Running) return engine.empty() ? "abandoned" : "running";
    return launch.state == LaunchState::Failed && interrupted.contains(launch.id)
               ? "interrupted"
               : std::string(to_string(launch.state));
  }
};

Status read_status(const std::string& directory) {
  Status status;
  status.engine = lock_holder(directory);
  const LedgerData data = value_or_throw(read_ledger(directory));
  status.report = judge_results(data);
  status.progress = plan_progress(data);
  for (const EventRow& event : data.events)
    if (event.kind == "stopped") status.interrupted.insert(event.launch);
  if (status.engine.empty()) return status;
  Eta eta;
  eta.read(data);
  double current = 0; // the running launch's share that is done
  if (const LaunchSummary* running = status.running())
    current = seconds_between(running->row.started_utc, utc_now()).value_or(0);
  if (const auto left = eta.left(missing_launches(data), 0.0))
    status.eta_seconds = std::max(0.0, *left - current);
  return status;
}

void print_json_status(const Status& status) {
  const auto launch_json = [&](const LaunchSummary& launch) {
    return json{{"id", launch.row.id},
                {"cell", launch.cell},
                {"kind", to_string(launch.row.kind)},
                {"index", launch.row.index},
                {"attempt", launch.row.attempt},
                {"repeats", launch.row.repeats},
                {"state", status.state_of(launch.row)},
                {"rounds", launch.rounds},
                {"rounds_planned", launch.row.rounds_planned},
                {"reason", launch.row.reason}};
  };
  json launches = json::array();
  for (const LaunchSummary& launch : status.report.launches)
    launches.push_back(launch_json(launch));
  json out = {{"name", status.report.spec.name},
              {"spec", status.report.spec.hash},
              {"complete", status.report.complete()},
              {"failed", status.progress.failed},
              {"problems", status.progress.problems},
              {"engine", status.engine},
              {"missing", status.report.missing},
              {"launches", launches}};
  if (status.eta_seconds) out["eta_seconds"] = *status.eta_seconds;
  if (const LaunchSummary* running = status.running()) out["running"] = launch_json(*running);
  print_json(out);
}

void print_status(const Status& status) {
  const Report& report = status.report;
  fmt::print("{} (spec {}), {}\n",
             printable(report.spec.name),
             report.spec.hash,
             report.complete() ? "complete" : "incomplete");
  if (!status.engine.empty()) {
    const LaunchSummary* running = status.running();
    fmt::print("  running: {}{}\n",
               running == nullptr ? std::string("between launches")
                                  : fmt::format("{} {} launch {}, round {}",
                                                printable(running->cell),
                                                to_string(running->row.kind),
                                                running->row.index,
                                                running->rounds),
               status.eta_seconds ? ", about " + human_seconds(*status.eta_seconds) + " left" : "");
    fmt::print("  by {}\n", status.engine);
  }
  for (const CellReport& cell : report.cells) {
    const std::string loss =
        cell.cell.loss_seeds == 0
            ? ""
            : fmt::format(", {} of {} loss launches", cell.loss_launches, cell.cell.loss_seeds);
    fmt::print("  {:<24} {} of {} timed launches{}\n",
               printable(cell.cell.name),
               cell.counted_launches,
               cell.planned_launches,
               loss);
  }
  for (const std::string& missing : report.missing)
    fmt::print("  missing: {}\n", printable(missing));
  for (const LaunchSummary& launch : report.launches)
    if (!launch.row.reason.empty())
      fmt::print("  launch {} ({}, {}): {}: {}\n",
                 launch.row.id,
                 printable(launch.cell),
                 to_string(launch.row.kind),
                 status.state_of(launch.row),
                 printable(launch.row.reason));
}

void watch(const std::string& directory) {
  for (;;) {
    const Status status = read_status(directory);
    if (::isatty(STDOUT_FILENO) != 0) fmt::print("\033[H\033[J");
    print_status(status);
    std::fflush(stdout);
    if (status.engine.empty()) return;
    std::this_thread::sleep_for(std::chrono::seconds(2));
  }
}

} // namespace

void add_status(CLI::App& app, int&) {
  CLI::App* command = app.add_subcommand("status", "show progress of a results directory");
  struct Options {
    std::string directory;
    bool json = false, watch = false;
  };
  auto options = std::make_shared<Options>();
  command->add_option("directory", options->directory, "results directory")->required();
  command->add_flag("--json", options->json, "print JSON");
  command->add_flag("--watch", options->watch, "print again every 2 s while a run is going on");
  command->callback([options] {
    if (options->watch && !options->json) return watch(options->directory);
    const Status status = read_status(options->directory);
    if (options->json)
      print_json_status(status);
    else
      print_status(status);
  });
}

} // namespace assay::cli
