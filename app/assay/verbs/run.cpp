// `assay run`: measures a plan; resumes an unfinished one.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "app/assay/json_output.h"
#include "app/assay/matrix_options.h"
#include "app/assay/programs.h"
#include "app/assay/run_progress.h"
#include "app/assay/store_process.h"
#include "app/assay/verbs.h"
#include "core/files/shell_text.h"
#include "core/rank_environment.h"
#include "core/result.h"
#include "core/text.h"
#include "experiments/engine/runner.h"
#include "experiments/plan/matrix.h"
#include "profilers/machine/busy_sample.h"

namespace assay::cli {

namespace {

struct Options {
  MatrixOptions matrix;
  std::string out, stop_after;
  std::vector<std::string> cells, redo;
  std::string wait_for_quiet; // a duration; "": do not wait
  bool fork = false, quiet = false, json = false;
};

// Computes as the plan's workers will, on the board that they will use.
QuietWait quiet_wait(const Plan& plan, const std::string& limit) {
  int threads = 1;
  bool gpu = false;
  for (const CellRow& cell : plan.ledger.cells) {
    const auto config = nlohmann::json::parse(cell.config_json);
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

RunSummary run_with_progress(const Plan& plan, const Options& options) {
  RunProgressLine line(options.quiet);
  RunOptions run;
  run.worker_path = program_path("assay-worker");
  run.fork = options.fork;
  run.cells = options.cells;
  run.redo = options.redo;
  if (!options.quiet) run.acknowledgement = "\nstopping after this round; Ctrl-C again stops now\n";
  if (!options.stop_after.empty())
    run.stop_after_seconds = value_or_throw(parse_duration(options.stop_after));
  if (!options.wait_for_quiet.empty()) run.quiet = quiet_wait(plan, options.wait_for_quiet);
  run.progress = [&line](const RunProgress& progress) { line.show(progress); };
  return run_plan(plan, options.out, run);
}

std::string result_line(const RunSummary& summary, const Options& options) {
  const PlanProgress& p = summary.progress;
  if (summary.outcome == RunSummary::Outcome::Complete && options.cells.empty())
    return fmt::format("complete: {} of {} launches in {}", p.done, p.planned, options.out);
  if (summary.outcome == RunSummary::Outcome::Complete)
    return fmt::format("chosen cells complete: {} of {} launches of all cells in {}",
                       p.done,
                       p.planned,
                       options.out);
  const std::string given_up =
      p.failed == 0 ? "" : fmt::format(", {} given up after {} attempts", p.failed, kAttempts);
  return fmt::format("incomplete: {} of {} launches in {}{}{}; run the same command to resume",
                     p.done,
                     p.planned,
                     options.out,
                     given_up,
                     summary.stopped.empty() || p.failed > 0 ? "" : " (" + summary.stopped + ")");
}

// `command`: that of the plan, to which a person adds.
void print_disturbed(const RunSummary& summary,
                     const Options& options,
                     const std::string& command) {
  if (summary.disturbed.empty()) return;
  for (const std::string& launch : summary.disturbed)
    fmt::print(stderr, "disturbed: {}\n", printable(launch));
  fmt::print(stderr,
             "other work disturbed these launches, which can cost the verdict; measure them again "
             "on a quiet machine:\n  {}{}\n",
             printable(command),
             options.redo.empty() ? " --redo disturbed" : "");
}

void print_summary(const RunSummary& summary, const Options& options, const std::string& command) {
  const PlanProgress& p = summary.progress;
  const bool complete = summary.outcome == RunSummary::Outcome::Complete;
  if (options.json) {
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
                {"set_aside", summary.set_aside}});
    return;
  }
  if (!summary.set_aside.empty())
    fmt::print(stderr, "older results of another plan or build are now in {}\n", summary.set_aside);
  for (const std::string& problem : p.problems)
    fmt::print(stderr, "problem: {}\n", printable(problem));
  print_disturbed(summary, options, command);
  fmt::print(stderr, "{}\n", result_line(summary, options));
}

// The verdicts, as `assay report` prints them, and what to type next.
void print_verdicts(const std::string& directory) {
  if (call(program_path("assay"), {"report", directory, "--no-files"}) == kOk)
    fmt::print("\nnext: assay report {0} (writes report.html), assay explain {0}, assay view {0}\n",
               shell_word(directory));
}

} // namespace

void add_run(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "run", "run an experiment matrix; resumes an unfinished results directory");
  auto options = std::make_shared<Options>();
  options->matrix.add_to(*command);
  command->add_option("--out", options->out, "results directory")->required();
  command->add_option(
      "--stop-after", options->stop_after, "stop cleanly after about this long: 90s, 9m, 1h30m");
  command->add_option("--cell",
                      options->cells,
                      "only this cell; may be repeated. `assay merge` joins such results");
  command
      ->add_option("--redo",
                   options->redo,
                   "measure again: a cell, or `disturbed` for the launches that other work "
                   "disturbed; the earlier rows stay in the ledger")
      ->type_name("CELL|disturbed");
  command
      ->add_flag("--wait-for-quiet{10m}",
                 options->wait_for_quiet,
                 "wait until the machine is quiet, at most TIME (default 10m), then continue")
      ->type_name("TIME");
  command->add_flag(
      "--fork", options->fork, "set results of another plan or build aside and start anew");
  command->add_flag("--quiet", options->quiet, "no progress line and no verdict table");
  command->add_flag("--json", options->json, "print the summary as JSON");
  command->callback([options, &exit_code] {
    const auto ranks = value_or_throw(read_rank_environment());
    if (ranks && ranks->rank > 0) exec_program(program_path("assay-worker"), {"follow"});
    std::optional<StoreProcess>
        host; // first, so that the others hear whatever goes wrong from here on
    if (ranks) host.emplace(program_path("assay-worker"));
    try {
      const Plan plan = options->matrix.load();
      const RunSummary summary = run_with_progress(plan, *options);
      print_summary(summary, *options, plan.ledger.spec.command);
      exit_code = summary.outcome == RunSummary::Outcome::Complete ? kOk : kIncomplete;
      if (exit_code == kOk && !options->json && !options->quiet) print_verdicts(options->out);
    } catch (const Failure& failure) {
      if (host)
        host->fail(failure.kind() == Failure::Kind::BadInput ? kBadInput : kInternal,
                   failure.what());
      throw;
    } catch (const std::exception& error) {
      if (host) host->fail(kInternal, error.what());
      throw;
    }
  });
}

} // namespace assay::cli
