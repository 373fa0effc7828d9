#include "experiments/engine/runner.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>

#include "core/files/shell_text.h"
#include "core/ledger/covariates.h"
#include "core/ledger/directory_lock.h"
#include "core/ledger/launch_rules.h"
#include "core/ledger/ledger_schema.h"
#include "core/stopwatch.h"
#include "core/system_call.h"
#include "core/text.h"
#include "core/trace/trace_file.h"
#include "core/trace/trace_schema.h"
#include "experiments/engine/earlier_results.h"
#include "experiments/engine/eta.h"
#include "experiments/engine/launch_runner.h"
#include "experiments/engine/stop_signal.h"
#include "experiments/evidence/cell_view.h"
#include "experiments/evidence/owed/continuation.h"
#include "experiments/evidence/owed/redo.h"
#include "experiments/plan/matrix/cell_name.h"
#include "experiments/plan/trace_size.h"

namespace assay {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

namespace {

class Runner {
public:
  Runner(const Plan& plan, const std::string& directory, const RunOptions& options)
      : options_(options), directory_(directory),
        deadline_seconds_(options.stop_after_seconds ? options.stop_after_seconds
                                                     : plan.budget_seconds),
        trace_budget_(plan.trace_budget_bytes) {
    StopSignal::acknowledge_with(options.acknowledge);
    check_cells(plan.ledger);
    refuse_directory(directory, plan);
    if (options.fork) summary_.older_results = set_aside(plan, directory, options);
    log_directory_ = (fs::path(directory) / "logs").string();
    new_ledger_ = !fs::exists(fs::path(directory) / ledger_schema::kFileName);
    new_logs_ = !fs::exists(log_directory_);
    ledger_ = Ledger::open(directory, plan.ledger);
    make_directory(log_directory_);
    ledger_->add(options.calibrations);
    ledger_->close_abandoned_launches();
    remove_unfinished_traces();
    data_ = ledger_->read();
    ask_for_redo();
    data_.visits.clear(); // the plan's state needs none, and there may be millions
    data_.visits.shrink_to_fit();
    refuse_other_build();
    eta_.read(data_);
    for (const LaunchRow& launch : data_.launches) since_ = std::max(since_, launch.id);
  }

  // A run that is refused before it measured anything leaves no results behind: they would only
  // refuse the next, corrected one.
  RunSummary run() {
    try {
      return run_launches();
    } catch (const Failure& failure) {
      if (failure.kind() == Failure::Kind::BadInput && new_ledger_ && nothing_measured()) discard();
      throw;
    }
  }

private:
  RunSummary run_launches() {
    const bool nothing_again = !options_.redo.empty() && !any_redo();
    if (nothing_again && new_ledger_)
      bad_input("--redo {}: {} contains no results; leave out --redo to measure them",
                fmt::join(options_.redo, " --redo "),
                directory_);
    summary_.nothing_again = nothing_again;
    if (nothing_again) summary_.stopped = "no launch to measure again";
    std::vector<LaunchTask> tasks = next_launches();
    for (; !tasks.empty() && !nothing_again; tasks = next_launches()) {
      if (leave_untraced(tasks.front())) continue;
      summary_.stopped = why_not_start(tasks.front());
      if (!summary_.stopped.empty()) break;
      const std::string waited = wait_until_quiet(tasks.front());
      summary_.stopped = why_not_start(tasks.front());
      if (!summary_.stopped.empty()) break;
      run_launch(tasks, waited);
    }
    summary_.progress = plan_progress(data_, since_);
    const bool complete = chosen_progress().complete();
    summary_.outcome = complete ? RunSummary::Outcome::Complete : RunSummary::Outcome::Incomplete;
    summary_.gave_up = tasks.empty() && !complete;
    if (summary_.gave_up) summary_.stopped = "launches that failed";
    ledger_->finish();
    return std::move(summary_);
  }

  PlanProgress chosen_progress() const {
    LedgerData chosen = data_;
    std::erase_if(chosen.cells, [&](const CellRow& cell) { return !is_chosen(cell.name); });
    return plan_progress(chosen, since_);
  }

  bool is_chosen(const std::string& cell) const {
    return options_.cells.empty() ||
           std::find(options_.cells.begin(), options_.cells.end(), cell) != options_.cells.end();
  }

  // What killed launches left; this process has the lock, and no launch runs.
  void remove_unfinished_traces() const {
    std::error_code ignored; // there may be no traces
    std::vector<fs::path> unfinished;
    for (const auto& entry : fs::directory_iterator(fs::path(directory_) / kTraceFolder, ignored))
      if (trace_schema::is_unfinished(entry.path().filename().string()))
        unfinished.push_back(entry.path());
    for (const fs::path& path : unfinished) fs::remove(path, ignored);
  }

  // A wish is a row, so that whatever ends this run, the same results know what is to be repeated.
  void ask_for_redo() {
    const std::vector<EventRow> events = redo_events(data_, {options_.redo, options_.cells});
    ledger_->add({}, {}, events);
    data_.events.insert(data_.events.end(), events.begin(), events.end());
  }

  bool any_redo() const {
    return std::any_of(data_.launches.begin(), data_.launches.end(), [&](const LaunchRow& launch) {
      return redo_is_asked(data_, launch) && is_chosen(data_.cell(launch.cell).name);
    });
  }

  bool nothing_measured() const {
    const LedgerData data = ledger_->read();
    return data.visits.empty() &&
           std::none_of(data.launches.begin(), data.launches.end(), [](const LaunchRow& launch) {
             return launch.state == LaunchState::Complete;
           });
  }

  // What this run made, and the directory if nothing else is in it.
  void discard() {
    ledger_.reset();
    const fs::path directory(directory_);
    std::error_code ignored; // the refusal under way is more specific
    for (const char* suffix : {"", "-wal", "-shm"})
      fs::remove(directory / (std::string(ledger_schema::kFileName) + suffix), ignored);
    fs::remove(directory / ledger_schema::kLockName, ignored);
    if (new_logs_) fs::remove_all(log_directory_, ignored);
    fs::remove(directory, ignored); // stays when something of a person's is in it
  }

  void check_cells(const LedgerData& plan) const {
    std::vector<std::string> names;
    for (const CellRow& cell : plan.cells) names.push_back(cell.name);
    for (const std::string& name : options_.cells) require_cell("--cell", name, names);
    for (const std::string& name : options_.redo)
      require_cell("--redo", name, names, kCauseDisturbed);
    for (const std::string& name : options_.redo)
      if (name != kCauseDisturbed && !is_chosen(name))
        bad_input("--redo {}: not among the cells of --cell, so it would not be measured again; "
                  "leave out --cell, or give --cell {} too",
                  shell_word(name),
                  shell_word(name));
  }

  std::vector<LaunchTask> next_launches() {
    for (const LookTask& look : looks_to_take(data_))
      if (const CellRow& cell = data_.cell(look.cell); is_chosen(cell.name)) take_look(cell, look);
    return chosen_launches();
  }

  void take_look(const CellRow& cell, const LookTask& look) {
    if (!options_.decided) internal_error("cell '{}' has looks and nobody to judge it", cell.name);
    const bool decided = options_.decided(ledger_->read(), cell.id);
    const std::string detail =
        fmt::format("{} after {} launches", decided ? "decided" : "open", look.launches);
    const EventRow event{
        look.launch, -1, utc_now(), "look", detail, 0, decided ? kCauseDecided : kCauseOpen};
    ledger_->add({}, {}, {event});
    data_.events.push_back(event);
    RunProgress progress;
    progress.cell = cell.name;
    progress.note =
        fmt::format("{}: {}{}",
                    cell.name,
                    detail,
                    decided || look.launches == cell.looks.back() ? "; no further launch" : "");
    report(progress);
  }

  std::vector<LaunchTask> chosen_launches() const {
    std::vector<LaunchTask> tasks = missing_launches(data_, since_);
    std::erase_if(tasks, [&](const LaunchTask& task) {
      return !is_chosen(data_.cell(task.cell).name) ||
             (task.kind == LaunchKind::Traced && untraced_.contains(task.cell));
    });
    return tasks;
  }

  // Whether the launch's traces would exceed the disk budget; the ledger then says so. Expected is
  // the estimate, corrected by the traces that are there.
  bool leave_untraced(const LaunchTask& task) {
    if (task.kind != LaunchKind::Traced || !trace_budget_) return false;
    const double present = trace_bytes_in(directory_);
    double estimated = 0; // of what is there
    for (const LaunchRow& launch : data_.launches)
      if (launch.kind == LaunchKind::Traced && launch.state == LaunchState::Complete)
        estimated += estimated_trace_bytes(data_, data_.cell(launch.cell));
    const double expected = estimated_trace_bytes(data_, data_.cell(task.cell)) *
                            (present > 0 && estimated > 0 ? present / estimated : 1);
    if (present + expected <= *trace_budget_) return false;
    untraced_.insert(task.cell);
    note_untraced(
        task,
        fmt::format(
            "traces take {}, this launch about {}, and [trace] max_gib allows {}; raise it and "
            "run again to record it",
            human_bytes(present),
            human_bytes(expected),
            human_bytes(*trace_budget_)));
    return true;
  }

  // An event needs a launch: the newest one of the cell.
  void note_untraced(const LaunchTask& task, const std::string& why) {
    RunProgress progress = describe(task);
    progress.note = progress.cell + ": no trace: " + why;
    report(progress);
    std::int64_t newest = 0;
    for (const LaunchRow& launch : data_.launches)
      if (launch.cell == task.cell) newest = std::max(newest, launch.id);
    const EventRow event{newest, -1, utc_now(), "untraced", why};
    ledger_->add({}, {}, {event});
    data_.events.push_back(event);
  }

  void refuse_other_build() {
    build_ = measured_build(data_);
    if (build_.empty() || missing_launches(data_).empty()) return;
    if (const std::string build = worker_build(options_, log_directory_); build != build_)
      bad_input("these results were measured by build {}, and the worker is build {}: launches of "
                "two builds are never mixed. Bring that build back, {}",
                build_,
                build,
                kStartAnew);
  }

  std::string why_stop() const {
    if (StopSignal::count() > 0) return "interrupted";
    if (deadline_seconds_ && seconds_since(start_) >= *deadline_seconds_)
      return fmt::format("the time limit of {} was reached", human_seconds(*deadline_seconds_));
    return "";
  }

  // A launch that is cut off in its first half is lost, so none begins that the limit would cut.
  // How long one takes is known from those before it, by the clock on the wall, which a suspended
  // machine turns into hours: the first launch of an invocation begins in any case.
  std::string why_not_start(const LaunchTask& task) const {
    std::string why = why_stop();
    const std::optional<double> needed = eta_.expected(task);
    if (!why.empty() || !deadline_seconds_ || !needed || !any_launch_) return why;
    const double left = *deadline_seconds_ - seconds_since(start_);
    if (*needed <= left) return "";
    return fmt::format("the time limit of {}: {} are left, and the next launch takes about {}",
                       human_seconds(*deadline_seconds_),
                       human_seconds(left),
                       human_seconds(*needed));
  }

  // What was waited for, in words, or "". A launch must not follow what disturbed the one before.
  std::string wait_until_quiet(const LaunchTask& task) {
    if (!options_.quiet || (any_launch_ && !last_disturbed_)) return "";
    RunProgress progress = describe(task);
    const QuietResult result = wait_for_quiet(
        *options_.quiet,
        data_.spec.limits,
        [this] { return !why_stop().empty(); },
        [&](const std::string& cause, double seconds) {
          progress.waiting = WaitProgress{cause, seconds, options_.quiet->limit_seconds};
          report(progress);
          ledger_->tell_activity(
              fmt::format("waiting for a quiet machine, at most {}, before {} {}: {}",
                          human_seconds(options_.quiet->limit_seconds),
                          progress.cell,
                          numbered_launches_text(task.kind, {task.index}),
                          cause));
        });
    if (progress.waiting) ledger_->tell_activity("");
    progress.waiting.reset();
    if (!result.quiet && why_stop().empty())
      progress.note = result.detail() + "; measuring all the same";
    if (!progress.note.empty()) report(progress);
    return result.detail();
  }

  void run_launch(const std::vector<LaunchTask>& tasks, const std::string& waited) {
    const LaunchTask& task = tasks.front();
    any_launch_ = true;
    const std::vector<LaunchTask> after(tasks.begin() + 1, tasks.end());
    const auto start = Clock::now();
    RunProgress progress = describe(task);
    progress.eta_seconds = eta_.left(after, eta_.expected(task));
    report(progress);
    LaunchContext context{data_,
                          *ledger_,
                          options_,
                          {data_.spec.hash, data_.spec.seed},
                          log_directory_,
                          directory_,
                          build_,
                          [this] { return why_stop(); },
                          {},
                          waited,
                          [&](const std::string& text) { warn_once(progress, text); }};
    context.on_round = [&](const LaunchContext::Round& round) {
      progress.round = round.counted;
      progress.warmup = round.warmup;
      progress.warmup_round = round.warmup ? round.all : 0;
      progress.disturbed = round.disturbed;
      const int all = round.all - round.counted + progress.rounds;
      const double elapsed = seconds_since(start);
      Eta eta = eta_;
      eta.assume(task, elapsed, round.all, all);
      progress.eta_seconds = eta.left(after, elapsed * all / round.all - elapsed);
      report(progress);
    };
    const LaunchOutcome outcome = LaunchRunner(context, task).run();
    StopSignal::acknowledge_with(options_.acknowledge);
    build_ = context.build;
    data_.launches.push_back(outcome.row);
    data_.gates.insert(data_.gates.end(), outcome.gates.begin(), outcome.gates.end());
    data_.events.insert(data_.events.end(), outcome.events.begin(), outcome.events.end());
    data_.metrics.insert(data_.metrics.end(), outcome.data.begin(), outcome.data.end());
    if (outcome.row.state == LaunchState::Complete) eta_.finished(task, seconds_since(start));
    remove_unfinished_traces();
    note_disturbed(progress, task, outcome);
    note_trouble(progress, outcome);
  }

  // Every launch finds the same data.
  void warn_once(RunProgress progress, const std::string& text) {
    if (!warned_.insert(text).second) return;
    progress.note = text;
    report(progress);
  }

  void note_disturbed(RunProgress progress, const LaunchTask& task, const LaunchOutcome& outcome) {
    last_disturbed_ =
        beyond_limit(outcome.disturbed_rounds, outcome.counted_rounds, data_.spec.limits);
    const bool set_aside = data_.set_aside(outcome.row.id);
    // A timed launch that does not count is measured again anyway.
    if (!last_disturbed_ || (!is_counted(outcome.row) && !set_aside)) return;
    const std::string what = fmt::format("{}, timed launch {}: {} of {} rounds",
                                         progress.cell,
                                         task.index,
                                         outcome.disturbed_rounds,
                                         outcome.counted_rounds);
    (set_aside ? summary_.set_aside : summary_.disturbed).push_back(what);
    if (set_aside) summary_.try_again.insert(redo_cause(outcome.row.repeats, progress.cell));
    progress.note = "disturbed by other work: " + what +
                    (set_aside ? "; set aside, the earlier launch counts" : "");
    report(progress);
  }

  // What `--redo` was given for a launch: its cell, or "disturbed".
  std::string redo_cause(std::int64_t launch, const std::string& cell) const {
    std::string cause = cell;
    for (const EventRow& event : data_.events)
      if (event.launch == launch && event.kind == "redo")
        cause = event.cause == kCauseDisturbed ? kCauseDisturbed : cell;
    return cause;
  }

  RunProgress describe(const LaunchTask& task) const {
    const CellRow& cell = data_.cell(task.cell);
    RunProgress progress;
    const PlanProgress state = plan_progress(data_, since_);
    progress.launches = state.planned - state.not_run;
    progress.launch_number = state.done + state.failed + 1;
    progress.cell = cell.name;
    progress.task = task;
    progress.rounds = task.kind == LaunchKind::Timed    ? cell.rounds
                      : task.kind == LaunchKind::Loss   ? cell.loss_rounds
                      : task.kind == LaunchKind::Traced ? cell.traced_rounds
                      : task.kind == LaunchKind::Energy ? cell.energy_rounds
                                                        : 0;
    return progress;
  }

  void note_trouble(RunProgress progress, const LaunchOutcome& outcome) {
    if (data_.set_aside(outcome.row.id)) return; // note_disturbed() told it
    std::string note = outcome.row.reason;
    std::map<std::int64_t, std::vector<std::string>> failed; // gates, by variant
    for (const GateRow& gate : outcome.gates)
      if (!gate.passed) failed[gate.variant].push_back(gate.name);
    for (const auto& [variant, gates] : failed)
      note += fmt::format("{}{} does not pass {} and is not timed",
                          note.empty() ? "" : "; ",
                          data_.variant(variant).name,
                          fmt::join(gates, ", "));
    if (note.empty()) return;
    const bool shared = std::any_of( // other cells meet the same input
        outcome.events.begin(),
        outcome.events.end(),
        [](const EventRow& event) { return event.kind == "bad_input"; });
    if (shared) return warn_once(progress, note);
    progress.note = note;
    report(progress);
  }

  void report(const RunProgress& progress) const {
    if (options_.progress) options_.progress(progress);
  }

  const RunOptions& options_;
  std::string directory_;
  StopSignal signals_;
  Clock::time_point start_ = Clock::now();
  std::optional<double> deadline_seconds_;
  RunSummary summary_;
  std::unique_ptr<Ledger> ledger_;
  LedgerData data_; // without visits, kept up to date
  std::string log_directory_, build_;
  std::optional<double> trace_budget_;         // bytes
  std::set<std::int64_t> untraced_;            // cells whose traced launch this run leaves out
  bool new_ledger_ = false, new_logs_ = false; // made by this run
  bool any_launch_ = false;                    // begun by this run
  bool last_disturbed_ = false;                // the launch before, beyond the plan's limit
  std::int64_t since_ = 0; // the newest launch before this run: older failures get another chance
  std::set<std::string> warned_;
  Eta eta_;
};

} // namespace

RunSummary run_plan(const Plan& plan, const std::string& directory, const RunOptions& options) {
  try {
    return Runner(plan, directory, options).run();
  } catch (const fs::filesystem_error& error) {
    bad_input("{}: {}", error.path1().string(), system_cause(error.code().value()));
  }
}

} // namespace assay
