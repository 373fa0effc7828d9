// `assay run`: measures a plan; resumes an unfinished one.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "app/assay/matrix_options.h"
#include "app/assay/output/json_output.h"
#include "app/assay/output/run_progress.h"
#include "app/assay/output/terminal.h"
#include "app/assay/programs.h"
#include "app/assay/store_process.h"
#include "app/assay/time_limits.h"
#include "app/assay/verbs.h"
#include "app/assay/verbs/gpu_check.h"
#include "app/value_checks.h"
#include "core/files/atomic_file.h"
#include "core/files/output_target.h"
#include "core/files/shell_text.h"
#include "core/ledger/calibration_store.h"
#include "core/ledger/ledger.h"
#include "core/ledger/stored_config.h"
#include "core/rank_environment.h"
#include "core/result.h"
#include "core/text.h"
#include "experiments/analysis/looks.h"
#include "experiments/analysis/report.h"
#include "experiments/analysis/wording.h"
#include "experiments/engine/runner.h"
#include "experiments/evidence/effect.h"
#include "experiments/evidence/owed/redo.h"
#include "experiments/plan/matrix/matrix.h"
#include "experiments/report/text_layout.h"
#include "profilers/machine/busy_sample.h"
#include "profilers/machine/machine_info.h"
#include "profilers/monitor/machine_monitor.h"

namespace assay::cli {

namespace {

struct Options {
  MatrixOptions matrix;
  std::string command; // that the plan keeps; empty: this process's own
  std::string out;
  std::vector<std::string> cells, redo;
  TimeLimits limits;
  double monitor_seconds = 5; // between readings of the machine; 0: none
  bool fork = false, quiet = false, json = false;
  TerminalOptions terminal; // of the verdict table
};

// Computes as the plan's workers will, on the board that they will use.
QuietWait quiet_wait(const Plan& plan, const std::string& limit) {
  int threads = 1;
  bool gpu = false;
  for (const CellRow& cell : plan.ledger.cells) {
    const nlohmann::json config = stored_config(cell.config_json);
    const int wanted = config.at("threads").get<int>();
    threads = threads == 0 || wanted == 0 ? 0 : std::max(threads, wanted);
    gpu = gpu || config.at("device") == "cuda";
  }
  auto sampler = std::make_shared<CovariateSampler>();
  if (gpu)
    if (auto board = NvmlSampler::open(worker_identity().at("gpu_uuid").get<std::string>()))
      sampler = std::make_shared<CovariateSampler>(std::move(*board));
  return {[sampler, threads] { return sample_busy_machine(*sampler, threads); },
          value_or_throw(parse_duration(limit))};
}

// Those of this machine. What cannot be read does not keep a run from measuring.
std::vector<CalibrationRow> own_calibrations(RunProgressLine& line) {
  Result<std::vector<CalibrationRow>> rows = read_calibration_store(calibration_store_path());
  if (!rows) {
    line.note(printable(rows.error().message));
    return {};
  }
  const std::string host = machine_info().host;
  std::erase_if(*rows, [&](const CalibrationRow& row) { return row.host != host; });
  return *std::move(rows);
}

RunSummary run_with_progress(const Plan& plan, const Options& options) {
  refuse_standard_output(options.out);
  require_gpu(plan,
              {.directory = options.out,
               .cells = options.cells,
               .anew = options.fork || !options.redo.empty()});
  RunProgressLine line(options.quiet);
  RunOptions run;
  run.worker_path = program_path("assay-worker");
  run.calibrations = own_calibrations(line);
  run.fork = options.fork;
  run.decided = is_decided;
  run.cells = options.cells;
  run.redo = options.redo;
  if (!options.quiet) {
    run.acknowledge_in_round = "\nstopping after this round; Ctrl-C again stops now\n";
    run.acknowledge = "\nstopping\n";
  }
  if (!options.limits.stop_after.empty())
    run.stop_after_seconds = value_or_throw(parse_duration(options.limits.stop_after));
  if (!options.limits.wait_for_quiet.empty())
    run.quiet = quiet_wait(plan, options.limits.wait_for_quiet);
  std::vector<std::string> notes = note_texts(plan, options.cells);
  std::optional<MachineMonitor> monitor;
  if (options.monitor_seconds > 0) {
    monitor.emplace(options.monitor_seconds);
    run.monitor = {monitor->meters(), [&] { return monitor->take(); }};
  }
  run.progress = [&](const RunProgress& progress) { // nothing refuses the run any more
    for (const std::string& note : std::exchange(notes, {})) line.note(printable(note));
    line.show(progress, monitor ? monitor->text() : "");
  };
  return run_plan(plan, options.out, run);
}

// Where commands find what came from standard input, which is gone; "" for a file.
std::string kept_in(const Options& options) {
  return options.matrix.from_standard_input() ? options.out : "";
}

// Another file of that name stays.
void keep_matrix(const SpecRow& spec, const Options& options) {
  const std::filesystem::path file = std::filesystem::path(options.out) / kKeptMatrix;
  if (std::error_code ignored;
      options.matrix.from_standard_input() && !std::filesystem::exists(file, ignored))
    write_file_atomically(file.string(), spec.matrix_toml);
}

// Why fewer launches than planned are complete.
std::string left_out_text(const PlanProgress& p) {
  std::vector<std::string> parts;
  if (p.untraced > 0)
    parts.push_back(fmt::format(
        "{} trace{} left out: [trace] max_gib", p.untraced, p.untraced == 1 ? "" : "s"));
  if (p.not_run > p.untraced)
    parts.push_back(fmt::format("{} not possible: see the problems", p.not_run - p.untraced));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string result_line(const RunSummary& summary, const Options& options) {
  const PlanProgress& p = summary.progress;
  if (summary.outcome == RunSummary::Outcome::Complete && summary.nothing_again)
    return fmt::format("nothing was measured again in {}: no chosen launch {}",
                       options.out,
                       std::find(options.redo.begin(), options.redo.end(), kCauseDisturbed) ==
                               options.redo.end()
                           ? "counts yet"
                           : "was disturbed beyond the limit; --redo with a cell's "
                             "name measures all of its launches");
  if (summary.outcome == RunSummary::Outcome::Complete && options.cells.empty() && p.not_run > 0)
    return fmt::format("complete: {} ({}) in {}",
                       launch_count_text(static_cast<std::size_t>(p.done)),
                       left_out_text(p),
                       options.out);
  if (summary.outcome == RunSummary::Outcome::Complete && options.cells.empty())
    return fmt::format("complete: {} of {} launches in {}", p.done, p.planned, options.out);
  if (summary.outcome == RunSummary::Outcome::Complete)
    return fmt::format(
        "the chosen cells are complete; of all cells, {} of {} launches are done in {}",
        p.done,
        p.planned,
        options.out);
  const std::string given_up = p.failed == 0 ? "" : fmt::format(", {} given up", p.failed);
  return fmt::format(
      "incomplete: {} of {} launches in {}{}{}{}{}; {}run the same command {}to resume",
      p.done,
      p.planned,
      options.out,
      p.not_run > 0 ? ", " + left_out_text(p) : "",
      given_up,
      summary.stopped.empty() || p.failed > 0 ? "" : " (" + summary.stopped + ")",
      options.redo.empty() || summary.nothing_again
          ? ""
          : "; an earlier launch counts until it is measured again",
      p.failed == 0 ? "" : "correct what the problems name, then ",
      summary.nothing_again ? "without --redo " : "");
}

void print_disturbed(const RunSummary& summary, const Options& options, const SpecRow& spec) {
  if (summary.disturbed.empty()) return;
  const bool one = summary.disturbed.size() == 1;
  print_note(
      fmt::format("other work disturbed {} of this run, which can cost the verdict; measure {} "
                  "again on a quiet machine:",
                  launch_count_text(summary.disturbed.size()),
                  one ? "it" : "them"));
  print_note_command(redo_command(spec, "", kept_in(options)));
}

void print_set_aside(const RunSummary& summary, const Options& options, const SpecRow& spec) {
  if (summary.set_aside.empty()) return;
  const bool one = summary.set_aside.size() == 1;
  print_note(fmt::format("other work disturbed {} repetition{} ({}), so the earlier launch{} still "
                         "count{}; to try again on a quiet machine:",
                         summary.set_aside.size(),
                         one ? "" : "s",
                         fmt::join(summary.set_aside, "; "),
                         one ? "" : "es",
                         one ? "s" : ""));
  print_note_command(redo_command(
      spec, "", kept_in(options), {summary.try_again.begin(), summary.try_again.end()}));
}

// A run that a person or a time limit stopped has not come to its verdicts yet.
bool prints_verdicts(const RunSummary& summary, const Options& options) {
  const bool ended = summary.outcome == RunSummary::Outcome::Complete ||
                     (summary.gave_up && summary.progress.done > 0);
  return ended && !options.json && !options.quiet;
}

void print_summary(const RunSummary& summary, const Options& options, const SpecRow& spec) {
  const PlanProgress& p = summary.progress;
  if (options.json) {
    const bool complete = summary.outcome == RunSummary::Outcome::Complete && p.missing == 0;
    print_json({{"complete", complete},
                {"directory", options.out},
                {"planned", p.planned},
                {"done", p.done},
                {"partial", p.partial},
                {"failed", p.failed},
                {"not_run", p.not_run},
                {"missing", p.missing},
                {"problems", p.problems},
                {"stopped", summary.stopped},
                {"disturbed", summary.disturbed},
                {"set_aside", summary.set_aside},
                {"older_results", summary.older_results}});
    return;
  }
  if (!summary.older_results.empty())
    print_note("older results of another plan or build are now in " + summary.older_results);
  for (const std::string& problem : p.problems) print_note("problem: " + problem);
  if (!prints_verdicts(summary, options)) print_disturbed(summary, options, spec); // else they do
  print_set_aside(summary, options, spec);
  print_note(result_line(summary, options));
}

bool has_trace(const LedgerData& data) {
  return std::any_of(data.launches.begin(), data.launches.end(), [](const LaunchRow& launch) {
    return launch.kind == LaunchKind::Traced && launch.state == LaunchState::Complete;
  });
}

bool is_asked(const Options& options, const CellRow& cell) {
  return options.cells.empty() ||
         std::ranges::find(options.cells, cell.name) != options.cells.end();
}

// Names of the matrix's cells that have `launches` of their own.
std::set<std::string> cells_with_launches(const std::string& matrix_toml) {
  std::set<std::string> names;
  const Result<Matrix> matrix = parse_matrix(matrix_toml, "the stored matrix", {});
  if (matrix)
    for (const MatrixCell& cell : matrix->cells)
      if (cell.launches) names.insert(cell.name);
  return names;
}

// "; [[cell]] ema, guard: without `launches`", where --launches does not reach them.
std::string cells_with_own_launches(const LedgerData& data, const Options& options) {
  const std::set<std::string> own = cells_with_launches(data.spec.matrix_toml);
  std::vector<std::string> names;
  for (const CellRow& cell : data.cells)
    if (is_asked(options, cell) && cell.launches < kFullLaunches && own.contains(cell.name))
      names.push_back(cell.name);
  return names.empty() ? ""
                       : fmt::format("; [[cell]] {}: without `launches`", fmt::join(names, ", "));
}

// The verdicts, as `assay report` prints them, and what to type next. Returns the exit code of a
// report that could not be printed, else `code`.
int print_verdicts(int code,
                   const RunSummary& summary,
                   const Options& options,
                   const SpecRow& spec) {
  const std::string& directory = options.out;
  std::vector<std::string> arguments{"report", path_argument(directory), "--no-files"};
  for (const std::string& word : options.terminal.arguments()) arguments.push_back(word);
  if (const int failed = call(program_path("assay"), arguments); failed != kOk)
    return failed < 0 ? kInternal : failed;
  TextWriter out(options.terminal.style());
  out.raw("");
  if (summary.gave_up)
    print_command(
        out, "next, to try again what was given up:", continue_command(spec, "", kept_in(options)));
  const LedgerData data = value_or_throw(read_ledger(directory));
  out.line(fmt::format("next: assay report {0} (writes report.html){1}, assay view {0}",
                       shell_path(directory),
                       has_trace(data) ? ", assay explain " + shell_path(directory) : ""));
  if (std::ranges::any_of(data.cells, [&](const CellRow& cell) {
        return is_asked(options, cell) && cell.launches < kFullLaunches &&
               blocked(data, cell).empty();
      }))
    out.line(fmt::format("next, for verdicts: measure at least {0} launches of each cell into "
                         "another directory, with --launches {0} (or auto{1}) and another --out",
                         kFullLaunches,
                         cells_with_own_launches(data, options)));
  const auto launches = disturbed_rounds(data);
  const auto beyond =
      std::count_if(launches.begin(), launches.end(), [](const auto& one) { return one.beyond; });
  if (beyond > 0)
    print_command(
        out,
        fmt::format("next, on a quiet machine, since {}:",
                    disturbed_text(static_cast<int>(beyond), static_cast<int>(launches.size()))),
        redo_command(data.spec, "", directory));
  fmt::print("{}", out.take());
  return code;
}

int run(const Options& options) {
  const auto ranks = value_or_throw(read_rank_environment());
  if (ranks && ranks->rank > 0) exec_program(program_path("assay-worker"), {"follow"});
  std::optional<StoreProcess>
      host; // first, so that the others hear whatever goes wrong from here on
  if (ranks) host.emplace(program_path("assay-worker"));
  try {
    const Plan plan = options.matrix.load({.cells = options.cells, .command = options.command});
    const RunSummary summary = run_with_progress(plan, options);
    keep_matrix(plan.ledger.spec, options);
    print_summary(summary, options, plan.ledger.spec);
    const int code = summary.outcome == RunSummary::Outcome::Complete ? kOk : kIncomplete;
    if (!prints_verdicts(summary, options)) return code;
    return print_verdicts(code, summary, options, plan.ledger.spec);
  } catch (const Failure& failure) {
    if (host)
      host->fail(failure.kind() == Failure::Kind::BadInput ? kBadInput : kInternal, failure.what());
    throw;
  } catch (const std::exception& error) {
    if (host) host->fail(kInternal, error.what());
    throw;
  }
}

void add_run_of(CLI::App& app, int& exit_code, const std::string& command_line) {
  CLI::App* command = app.add_subcommand(
      "run", "run an experiment matrix; resumes an unfinished results directory");
  auto options = std::make_shared<Options>();
  options->matrix.add_to(*command);
  command->add_option("--out", options->out, "results directory")->required();
  command->add_option("--cell",
                      options->cells,
                      "only this cell; may be repeated. `assay merge` joins such results");
  CLI::Option* redo =
      command
          ->add_option("--redo",
                       options->redo,
                       "measure again: a cell, or `disturbed` for the launches that other work "
                       "disturbed; the earlier rows stay in the ledger")
          ->type_name("CELL|disturbed");
  options->limits.add_to(*command);
  command
      ->add_flag(
          "--fork", options->fork, "set results of another plan or build aside and start anew")
      ->excludes(redo);
  command
      ->add_option("--monitor",
                   options->monitor_seconds,
                   "seconds between the readings of the machine that the ledger keeps (default: 5; "
                   "0: none)")
      ->type_name("SECONDS")
      ->check(seconds_or_none());
  command->add_flag("--quiet", options->quiet, "no progress line and no verdict table");
  command->add_flag("--json", options->json, "print the summary as JSON");
  options->terminal.add_to(*command);
  options->command = command_line;
  command->callback([options, &exit_code] { exit_code = run(*options); });
}

} // namespace

void add_run(CLI::App& app, int& exit_code) {
  add_run_of(app, exit_code, "");
}

int run_matrix(std::vector<std::string> words) {
  CLI::App app;
  int exit_code = kOk;
  add_run_of(app, exit_code, "assay " + shell_line(words));
  std::ranges::reverse(words); // as the parser takes them
  app.parse(std::move(words));
  return exit_code;
}

} // namespace assay::cli
