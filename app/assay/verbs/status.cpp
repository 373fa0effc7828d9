// `assay status`: how far a results directory is.
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/assay/json_output.h"
#include "app/assay/verbs.h"
#include "core/ledger/ledger.h"
#include "core/result.h"
#include "core/text.h"
#include "experiments/analysis/report.h"

namespace assay::cli {

namespace {

using nlohmann::json;

void status(const std::string& directory, bool as_json) {
  const Report report = judge_results(value_or_throw(read_ledger(directory)));
  json launches = json::array();
  for (const LaunchSummary& launch : report.launches)
    launches.push_back({{"id", launch.row.id},
                        {"cell", launch.cell},
                        {"kind", to_string(launch.row.kind)},
                        {"index", launch.row.index},
                        {"attempt", launch.row.attempt},
                        {"state", to_string(launch.row.state)},
                        {"rounds", launch.rounds},
                        {"rounds_planned", launch.row.rounds_planned},
                        {"reason", launch.row.reason}});
  if (as_json) {
    print_json({{"name", report.spec.name},
                {"spec", report.spec.hash},
                {"complete", report.complete()},
                {"missing", report.missing},
                {"launches", launches}});
    return;
  }
  fmt::print("{} (spec {}), {}\n",
             printable(report.spec.name),
             report.spec.hash,
             report.complete() ? "complete" : "incomplete");
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
                 to_string(launch.row.state),
                 printable(launch.row.reason));
}

} // namespace

void add_status(CLI::App& app, int&) {
  CLI::App* command = app.add_subcommand("status", "how far a results directory is");
  auto directory = std::make_shared<std::string>();
  auto as_json = std::make_shared<bool>(false);
  command->add_option("directory", *directory, "results directory")->required();
  command->add_flag("--json", *as_json, "print JSON");
  command->callback([directory, as_json] { status(*directory, *as_json); });
}

} // namespace assay::cli
