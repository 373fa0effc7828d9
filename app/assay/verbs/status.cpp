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
#include <utility>
#include <vector>

#include "app/assay/output/json_output.h"
#include "app/assay/output/terminal.h"
#include "app/assay/programs.h"
#include "app/assay/verbs.h"
#include "core/files/shell_text.h"
#include "core/ledger/directory_lock.h"
#include "core/ledger/launch_rules.h"
#include "core/ledger/ledger.h"
#include "core/result.h"
#include "core/text.h"
#include "experiments/analysis/calibration.h"
#include "experiments/analysis/explanations.h"
#include "experiments/analysis/report.h"
#include "experiments/analysis/report_lines.h"
#include "experiments/analysis/winner.h"
#include "experiments/analysis/wording.h"
#include "experiments/engine/eta.h"
#include "experiments/evidence/cell_view.h"
#include "experiments/evidence/owed/continuation.h"
#include "experiments/evidence/owed/plan_state.h"
#include "experiments/evidence/owed/redo.h"
#include "experiments/report/text_layout.h"

namespace assay::cli {

namespace {

using nlohmann::json;

constexpr std::size_t kCellColumns = 24;

struct Status {
  std::string directory;
  Report report;
  PlanProgress progress;
  std::map<std::int64_t, RedoProgress> repeats;
  // While no run goes on, or "": the commands that measure what is left, and disturbed launches
  // too.
  std::string next, next_quiet;
  std::string why_not_continued; // in their place: why no run continues these results
  std::string engine;            // who runs it now, or ""
  std::string activity;          // … what it does between launches, or ""
  std::optional<double> eta_seconds;
  std::vector<std::string> damaged; // traces; not read while a run goes on

  const LaunchSummary* running() const {
    for (const LaunchSummary& launch : report.launches)
      if (launch.row.state == LaunchState::Running && !engine.empty()) return &launch;
    return nullptr;
  }
  std::string cell_name(std::int64_t id) const {
    for (const CellReport& cell : report.cells)
      if (cell.cell.id == id) return cell.cell.name;
    return "";
  }
  std::string state_of(const LaunchSummary& launch) const {
    const bool abandoned = launch.row.state == LaunchState::Running && engine.empty();
    return abandoned ? "abandoned" : launch.state();
  }
};

// Launches that are there and are measured again are not missing.
void keep_what_is_missing(Status& status) {
  for (CellReport& cell : status.report.cells) cell.missing.clear();
  for (OwedLaunches owed : status.progress.owed) {
    owed.launches -= std::exchange(owed.again, 0);
    if (owed.launches <= 0) continue;
    for (CellReport& cell : status.report.cells)
      if (cell.cell.id == owed.cell) cell.missing.push_back(owed_text(owed));
  }
}

// Launches below other results are run by a verb of its own, which does more than measure.
std::string command_of_parent(const std::string& directory, const LedgerData& data) {
  const std::filesystem::path whole = std::filesystem::absolute(directory).lexically_normal();
  const std::filesystem::path here = whole.has_filename() ? whole : whole.parent_path();
  const std::string parent = std::filesystem::proximate(here.parent_path()).string();
  if (here == std::filesystem::absolute(confirmation_directory(parent)).lexically_normal())
    return "assay confirm " + shell_path(parent);
  if (here == std::filesystem::absolute(calibration_directory(parent)).lexically_normal())
    return fmt::format(
        "assay calibrate {} --cell {}", shell_path(parent), shell_word(data.spec.name));
  return "";
}

void find_next(Status& status, const LedgerData& data) {
  const bool owes = !status.progress.complete();
  const bool disturbed = !redo_events(data, {{kCauseDisturbed}, {}}).empty();
  if (!owes && !disturbed) return;
  status.why_not_continued = why_not_continued(data, installed_worker_build());
  if (!status.why_not_continued.empty()) return;
  const std::string parents = command_of_parent(status.directory, data);
  if (owes)
    status.next = !parents.empty() && !data.launches.empty()
                      ? parents
                      : continue_command(data.spec, kAllCells, status.directory);
  if (disturbed) status.next_quiet = redo_command(data.spec, kAllCells, status.directory);
}

Status read_status(const std::string& directory) {
  Status status;
  status.directory = directory;
  status.engine = lock_holder(directory);
  status.activity = lock_holder_activity(directory);
  LedgerData data = value_or_throw(read_ledger(directory));
  status.report = judge_results(data);
  read_confirmation(directory, status.report);
  status.progress = plan_progress(data);
  keep_what_is_missing(status);
  status.repeats = redo_progress(data);
  if (status.engine.empty()) {
    find_next(status, data);
    status.damaged = damaged_traces(directory);
    return status;
  }
  Eta eta;
  eta.read(data);
  double current = 0; // the running launch's share that is done
  if (const LaunchSummary* running = status.running()) {
    current = seconds_between(running->row.started_utc, utc_now()).value_or(0);
    const int done = running->rounds + running->warmup_rounds,
              all = running->row.rounds_planned + running->warmup_rounds;
    eta.assume({running->row.cell, running->row.kind}, current, done, all);
  }
  if (const auto left = eta.left(missing_launches(data), 0.0))
    status.eta_seconds = std::max(0.0, *left - current);
  return status;
}

// "interrupted after round 3 of 36", "failed: the worker was killed": the reason of a launch that
// was stopped or set aside says so itself.
std::string why_ended(const Status& status, const LaunchSummary& launch) {
  const bool stopped = launch.row.state == LaunchState::Failed && launch.interrupted;
  const std::string reason = one_line(launch.row.reason);
  return stopped || launch.set_aside ? reason : status.state_of(launch) + ": " + reason;
}

void print_json_status(const Status& status) {
  std::vector<std::string> missing;
  for (const CellReport& cell : status.report.cells)
    for (const std::string& what : cell.missing) missing.push_back(cell.cell.name + ": " + what);
  const auto launch_json = [&](const LaunchSummary& launch) {
    return json{{"id", launch.row.id},
                {"cell", launch.cell},
                {"kind", to_string(launch.row.kind)},
                {"index", launch.row.index},
                {"attempt", launch.row.attempt},
                {"repeats", launch.row.repeats},
                {"state", status.state_of(launch)},
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
              {"missing", missing},
              {"damaged_traces", status.damaged},
              {"confirmation_unread", status.report.confirmation_unread},
              {"launches", launches}};
  for (const auto& [cell, repeats] : status.repeats)
    out["measured_again"].push_back({{"cell", status.cell_name(cell)},
                                     {"done", repeats.done},
                                     {"set_aside", repeats.set_aside},
                                     {"asked", repeats.asked}});
  if (!status.next.empty()) out["continue"] = status.next;
  if (!status.next_quiet.empty()) out["redo"] = status.next_quiet;
  if (!status.why_not_continued.empty()) out["cannot_continue"] = status.why_not_continued;
  if (status.eta_seconds) out["eta_seconds"] = *status.eta_seconds;
  if (!status.activity.empty()) out["activity"] = status.activity;
  if (const LaunchSummary* running = status.running()) out["running"] = launch_json(*running);
  print_json(out);
}

// "round 3 of 36", "warm-up round 7"
std::string round_text(const LaunchSummary& launch) {
  if (launch.rounds == 0 && launch.warmup_rounds > 0)
    return fmt::format("warm-up round {}", launch.warmup_rounds);
  return fmt::format("round {} of {}", launch.rounds, launch.row.rounds_planned);
}

// "varlen timed launch 3, round 3 of 36"; the other kinds have no rounds.
std::string running_text(const LaunchSummary& launch) {
  const std::string name =
      launch.cell + " " + numbered_launches_text(launch.row.kind, {launch.row.index});
  const std::string again = launch.row.repeats == 0 ? "" : " again";
  return name + again + (launch.row.rounds_planned == 0 ? "" : ", " + round_text(launch));
}

void print_running(const Status& status, TextWriter& out) {
  const LaunchSummary* running = status.running();
  const bool known = status.eta_seconds.value_or(0) >= 1;
  out.line(fmt::format("running: {}{}",
                       running != nullptr        ? running_text(*running)
                       : status.activity.empty() ? std::string("between launches")
                                                 : status.activity,
                       known ? ", about " + human_seconds(*status.eta_seconds) + " left" : ""),
           2);
  out.line("by " + status.engine, 2);
}

// "5 of 5 timed launches, 2 of 5 measured again, 4 of 4 loss launches"
std::string cell_text(const Status& status, const CellReport& cell) {
  std::string text =
      fmt::format("{} of {} timed launches", cell.counted_launches, cell.planned_launches);
  if (const auto found = status.repeats.find(cell.cell.id); found != status.repeats.end())
    text += fmt::format(", {} of {} measured again{}",
                        found->second.done,
                        found->second.asked,
                        found->second.set_aside == 0
                            ? ""
                            : fmt::format(" ({} set aside)", found->second.set_aside));
  if (cell.cell.loss_seeds > 0)
    text += fmt::format(", {} of {} loss launches", cell.loss_launches, cell.cell.loss_seeds);
  return text;
}

bool same_launch(const LaunchRow& a, const LaunchRow& b) {
  return a.cell == b.cell && a.kind == b.kind && a.index == b.index;
}

// A later attempt of the same launch counts; after a merge it may be an earlier one, of another
// run. A repetition that failed is told: it was asked for.
bool made_good(const Report& report, const LaunchSummary& launch) {
  const bool by_any = launch.row.state == LaunchState::Failed && launch.row.repeats == 0;
  return std::any_of(report.launches.begin(), report.launches.end(), [&](const auto& other) {
    return same_launch(other.row, launch.row) &&
           (by_any || other.row.attempt > launch.row.attempt) &&
           (other.row.state == LaunchState::Complete || is_counted(other.row));
  });
}

// Launches of one kind that ended for the same reason.
struct Ended {
  LaunchKind kind;
  std::string why;
  std::vector<const LaunchSummary*> launches;
};

// "ema timed launches 1 to 3 (6 attempts), guard timed launch 1 (attempt 2)"
std::string ended_launches(const Status& status, const Ended& ended) {
  const auto& launches = status.report.launches;
  std::vector<std::vector<const LaunchRow*>> cells;
  for (const LaunchSummary* launch : ended.launches) {
    if (cells.empty() || cells.back().front()->cell != launch->row.cell) cells.emplace_back();
    cells.back().push_back(&launch->row);
  }
  std::vector<std::string> parts;
  for (const auto& rows : cells) {
    std::set<int> indices;
    for (const LaunchRow* row : rows) indices.insert(row->index);
    const LaunchRow& first = *rows.front();
    const auto attempts = std::count_if(launches.begin(), launches.end(), [&](const auto& other) {
      return same_launch(other.row, first);
    });
    parts.push_back(status.cell_name(first.cell) + " " +
                    numbered_launches_text(ended.kind, indices));
    if (rows.size() > indices.size())
      parts.back() += fmt::format(" ({} attempts)", rows.size());
    else if (rows.size() == 1 && attempts > 1)
      parts.back() += fmt::format(" (attempt {})", first.attempt + 1);
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

void print_ended(const Status& status, TextWriter& out) {
  std::vector<Ended> lines;
  std::vector<const LaunchSummary*> launches;
  for (const LaunchSummary& launch : status.report.launches)
    if (!launch.row.reason.empty() && !made_good(status.report, launch) &&
        !status.progress.launches_told.contains(launch.row.id))
      launches.push_back(&launch);
  std::stable_sort(launches.begin(), launches.end(), [](const auto* a, const auto* b) {
    return a->row.cell < b->row.cell;
  });
  for (const LaunchSummary* launch : launches) {
    std::string why = why_ended(status, *launch);
    auto found = std::find_if(lines.begin(), lines.end(), [&](const Ended& known) {
      return known.kind == launch->row.kind && known.why == why;
    });
    if (found == lines.end())
      found = lines.insert(lines.end(), {launch->row.kind, std::move(why), {}});
    found->launches.push_back(launch);
  }
  for (const Ended& line : lines) out.line(ended_launches(status, line) + ": " + line.why, 2);
}

void print_status(const Status& status, const TableStyle& style) {
  const Report& report = status.report;
  TextWriter out(style);
  out.line(fmt::format("{} (spec {}), {}",
                       report.spec.name,
                       report.spec.hash,
                       report.complete() ? "complete" : "incomplete"));
  if (!status.engine.empty()) print_running(status, out);
  for (const CellReport& cell : report.cells)
    out.line(fmt::format("{} {}",
                         padded(printable(cell.cell.name), kCellColumns, false),
                         cell_text(status, cell)),
             2);
  for (const std::string& missing : missing_lines(report)) out.line(missing, 2, "missing: ");
  for (const CellReport& cell : report.cells)
    if (cell.disturbed_launches > 0)
      out.line(disturbed_text(cell.disturbed_launches, cell.launches_with_copies),
               2,
               cell.cell.name + ": ");
  for (const std::string& problem : status.progress.problems) out.line(problem, 2, "problem: ");
  if (!status.damaged.empty())
    out.line(fmt::format("{} (`assay report` says what is wrong)", fmt::join(status.damaged, ", ")),
             2,
             "damaged traces: ");
  if (!status.report.confirmation_unread.empty())
    out.line(status.report.confirmation_unread, 2, "fresh launches cannot be read: ");
  print_ended(status, out);
  if (!status.why_not_continued.empty())
    out.line(status.why_not_continued + "; bring that build back, or " + kStartAnew,
             2,
             "these results cannot be continued: ");
  if (!status.next.empty()) print_command(out, "  next:", status.next);
  if (!status.next_quiet.empty())
    print_command(out, "  next, on a quiet machine:", status.next_quiet);
  fmt::print("{}", out.take());
}

void watch(const std::string& directory, const TableStyle& style) {
  for (;;) {
    const Status status = read_status(directory);
    if (::isatty(STDOUT_FILENO) != 0) fmt::print("\033[H\033[J");
    print_status(status, style);
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
    TerminalOptions terminal;
  };
  auto options = std::make_shared<Options>();
  command->add_option("directory", options->directory, "results directory")->required();
  command->add_flag("--json", options->json, "print JSON");
  command->add_flag("--watch", options->watch, "print again every 2 s while a run is active");
  options->terminal.add_to(*command);
  command->callback([options] {
    const TableStyle style = options->terminal.style();
    if (options->watch && !options->json) return watch(options->directory, style);
    const Status status = read_status(options->directory);
    if (options->json)
      print_json_status(status);
    else
      print_status(status, style);
  });
}

} // namespace assay::cli
