#include "experiments/engine/runner.h"

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "core/ledger/directory_lock.h"
#include "core/ledger/ledger_schema.h"
#include "core/text.h"
#include "experiments/engine/earlier_results.h"
#include "experiments/engine/launch_runner.h"
#include "experiments/engine/stop_signal.h"

namespace assay {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

namespace {

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Durations of complete launches, for the time that is left.
class Eta {
public:
  void read(const LedgerData& data) {
    for (const LaunchRow& launch : data.launches)
      if (launch.state == LaunchState::Complete)
        if (const auto seconds = seconds_between(launch.started_utc, launch.ended_utc))
          seen_[{launch.cell, launch.kind}].push_back(*seconds);
  }

  void finished(const LaunchTask& task, double seconds) {
    seen_[{task.cell, task.kind}].push_back(seconds);
  }

  std::optional<double> left(const std::vector<LaunchTask>& after,
                             std::optional<double> current_left) const {
    if (!current_left) return std::nullopt;
    double total = *current_left;
    for (const LaunchTask& task : after) {
      const std::optional<double> typical = expected(task);
      if (!typical) return std::nullopt;
      total += *typical;
    }
    return total;
  }

  // The mean of the cell's launches of this kind; else that of all launches of this kind; before
  // the first traced one, that of timed ones, which have more rounds.
  std::optional<double> expected(LaunchTask task) const {
    const std::optional<double> known = mean_of(task);
    if (known || task.kind != LaunchKind::Traced) return known;
    task.kind = LaunchKind::Timed;
    return mean_of(task);
  }

private:
  std::optional<double> mean_of(const LaunchTask& task) const {
    double sum = 0, n = 0;
    if (const auto own = seen_.find({task.cell, task.kind}); own != seen_.end()) {
      for (const double s : own->second) sum += s, ++n;
    } else {
      for (const auto& [key, values] : seen_)
        if (key.second == task.kind)
          for (const double s : values) sum += s, ++n;
    }
    return n > 0 ? std::optional(sum / n) : std::nullopt;
  }

  std::map<std::pair<std::int64_t, LaunchKind>, std::vector<double>> seen_;
};

class Runner {
public:
  Runner(const Plan& plan, const std::string& directory, const RunOptions& options)
      : options_(options), directory_(directory),
        deadline_seconds_(options.stop_after_seconds ? options.stop_after_seconds
                                                     : plan.budget_seconds) {
    check_cells(plan.ledger);
    if (options.fork) summary_.set_aside = set_aside(plan, directory, options);
    log_directory_ = (fs::path(directory) / "logs").string();
    new_ledger_ = !fs::exists(fs::path(directory) / ledger_schema::kFileName);
    new_logs_ = !fs::exists(log_directory_);
    ledger_ = Ledger::open(directory, plan.ledger);
    make_directory(log_directory_);
    ledger_->close_abandoned_launches();
    data_ = ledger_->read();
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
    std::vector<LaunchTask> tasks = chosen_launches();
    for (; !tasks.empty(); tasks = chosen_launches()) {
      summary_.stopped = why_not_start(tasks.front());
      if (!summary_.stopped.empty()) break;
      run_launch(tasks);
    }
    summary_.progress = plan_progress(data_, since_);
    summary_.outcome =
        tasks.empty() ? RunSummary::Outcome::Complete : RunSummary::Outcome::Incomplete;
    ledger_->finish();
    return std::move(summary_);
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
    std::error_code ignored; // the refusal under way says more
    for (const char* suffix : {"", "-wal", "-shm"})
      fs::remove(directory / (std::string(ledger_schema::kFileName) + suffix), ignored);
    fs::remove(directory / ledger_schema::kLockName, ignored);
    if (new_logs_) fs::remove_all(log_directory_, ignored);
    fs::remove(directory, ignored); // stays when something of a person's is in it
  }

  void check_cells(const LedgerData& plan) const {
    std::vector<std::string> names;
    for (const CellRow& cell : plan.cells) names.push_back(cell.name);
    for (const std::string& name : options_.cells)
      if (std::find(names.begin(), names.end(), name) == names.end())
        bad_input(
            "--cell {}: the plan has no such cell{}", printable(name), did_you_mean(name, names));
  }

  std::vector<LaunchTask> chosen_launches() const {
    std::vector<LaunchTask> tasks = missing_launches(data_, since_);
    if (options_.cells.empty()) return tasks;
    std::erase_if(tasks, [&](const LaunchTask& task) {
      const std::string& name = data_.cell(task.cell).name;
      return std::find(options_.cells.begin(), options_.cells.end(), name) == options_.cells.end();
    });
    return tasks;
  }

  void refuse_other_build() {
    build_ = measured_build(data_);
    if (build_.empty() || missing_launches(data_).empty()) return;
    if (const std::string build = worker_build(options_, log_directory_); build != build_)
      bad_input("these results were measured by build {}, and the worker is build {}: launches of "
                "two builds are never mixed. Use --fork to set the old results aside "
                "and start again, or bring that build back",
                build_,
                build);
  }

  std::string why_stop() const {
    if (StopSignal::count() > 0) return "SIGINT or SIGTERM";
    if (deadline_seconds_ && seconds_since(start_) >= *deadline_seconds_)
      return fmt::format("the time limit of {}", human_seconds(*deadline_seconds_));
    return "";
  }

  // A launch that is cut off in its first half is lost, so none begins that the limit would cut.
  // How long one takes is known from those before it: the first of its kind begins in any case.
  std::string why_not_start(const LaunchTask& task) const {
    std::string why = why_stop();
    const std::optional<double> needed = eta_.expected(task);
    if (!why.empty() || !deadline_seconds_ || !needed) return why;
    const double left = *deadline_seconds_ - seconds_since(start_);
    if (*needed <= left) return "";
    return fmt::format("the time limit of {}: {} are left, and the next launch takes about {}",
                       human_seconds(*deadline_seconds_),
                       human_seconds(left),
                       human_seconds(*needed));
  }

  void run_launch(const std::vector<LaunchTask>& tasks) {
    const LaunchTask& task = tasks.front();
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
                          {}};
    context.on_round = [&](int round, bool warmup, int rounds_done) {
      progress.round = round;
      progress.warmup = warmup;
      progress.warmup_round = warmup ? rounds_done : 0;
      const double share =
          static_cast<double>(rounds_done) / (rounds_done - round + progress.rounds);
      const double elapsed = seconds_since(start);
      progress.eta_seconds = eta_.left(after, elapsed / share - elapsed);
      report(progress);
    };
    const LaunchOutcome outcome = LaunchRunner(context, task).run();
    build_ = context.build;
    data_.launches.push_back(outcome.row);
    data_.gates.insert(data_.gates.end(), outcome.gates.begin(), outcome.gates.end());
    data_.events.insert(data_.events.end(), outcome.events.begin(), outcome.events.end());
    data_.metrics.insert(data_.metrics.end(), outcome.data.begin(), outcome.data.end());
    if (outcome.row.state == LaunchState::Complete) eta_.finished(task, seconds_since(start));
    note_trouble(progress, outcome);
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
                                                        : 0;
    return progress;
  }

  void note_trouble(RunProgress progress, const LaunchOutcome& outcome) {
    std::string note = outcome.row.reason;
    for (const GateRow& gate : outcome.gates)
      if (!gate.passed)
        note += fmt::format("{}{} does not pass {} and is not timed",
                            note.empty() ? "" : "; ",
                            data_.variant(gate.variant).name,
                            gate.name);
    if (note.empty()) return;
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
  bool new_ledger_ = false, new_logs_ = false; // made by this run
  std::int64_t since_ = 0; // the newest launch before this run: older failures get another chance
  Eta eta_;
};

} // namespace

RunSummary run_plan(const Plan& plan, const std::string& directory, const RunOptions& options) {
  return Runner(plan, directory, options).run();
}

} // namespace assay
