// `assay confirm`: measures the best comparison of a results directory again, in fresh launches.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include "app/assay/programs.h"
#include "app/assay/terminal.h"
#include "app/assay/time_limits.h"
#include "app/assay/verbs.h"
#include "core/files/atomic_file.h"
#include "core/files/shell_text.h"
#include "core/ledger/directory_lock.h"
#include "core/ledger/ledger.h"
#include "core/result.h"
#include "experiments/analysis/report.h"
#include "experiments/analysis/winner.h"
#include "experiments/plan/confirm_matrix.h"
#include "experiments/report/text_layout.h"

namespace assay::cli {

namespace {

struct Options {
  std::string directory;
  TimeLimits limits;
  bool quiet = false, json = false;
  TerminalOptions terminal;
};

// Another comparison was the best before more was measured; its confirmation stays.
void write_matrix(const std::string& file, const std::string& text, const std::string& out) {
  std::ifstream old(file, std::ios::binary);
  const std::string before{std::istreambuf_iterator<char>(old), {}};
  if (old && before != text)
    bad_input("{}: confirms another comparison than the best one of now; rename or remove {}",
              file,
              shell_word(out));
  if (!old) write_file_atomically(file, text);
}

int confirm(const Options& options) {
  const LedgerData data = value_or_throw(read_ledger(options.directory));
  const Report report = judge_results(data);
  const std::optional<Winner> winner = winner_of(report);
  if (!winner)
    bad_input("{}: nothing to confirm: no comparison is FASTER, or none was chosen among several",
              options.directory);
  const Comparison& best = report.cells[winner->cell].comparisons[winner->comparison];
  const std::string out = confirmation_directory(options.directory),
                    file = (std::filesystem::path(out) / "matrix.toml").string();
  make_directory(out);
  write_matrix(file, confirm_matrix(data, best.a_id, best.b_id), out);
  std::vector<std::string> arguments{"run", file, "--out", out};
  for (const std::string& word : options.limits.arguments()) arguments.push_back(word);
  if (options.quiet) arguments.emplace_back("--quiet");
  if (options.json) arguments.emplace_back("--json");
  for (const std::string& word : options.terminal.arguments()) arguments.push_back(word);
  const int code = call(program_path("assay"), arguments);
  if (code != kOk || options.json) return code < 0 ? kInternal : code;
  TextWriter text(options.terminal.style());
  text.raw("");
  text.line(winner_text(judge_results(data, {.traces = options.directory})));
  fmt::print("{}", text.take());
  return kOk;
}

} // namespace

void add_confirm(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "confirm", "measure the best of several comparisons again, in fresh launches");
  auto options = std::make_shared<Options>();
  command->add_option("directory", options->directory, "results directory")->required();
  options->limits.add_to(*command);
  command->add_flag("--quiet", options->quiet, "no progress line and no verdict table");
  command->add_flag("--json", options->json, "print the summary of the fresh launches as JSON");
  options->terminal.add_to(*command);
  command->callback([options, &exit_code] { exit_code = confirm(*options); });
}

} // namespace assay::cli
