// `assay confirm`: measures the best comparison of a results directory again, in fresh launches.
#include <cstdio>
#include <memory>

#include "app/assay/hand_over.h"
#include "app/assay/verbs.h"
#include "core/ledger/ledger.h"
#include "core/result.h"
#include "experiments/analysis/report.h"
#include "experiments/analysis/winner.h"
#include "experiments/plan/confirm_matrix.h"
#include "experiments/report/text_layout.h"

namespace assay::cli {

namespace {

struct ConfirmOptions {
  std::string directory;
  HandOver run;
};

int confirm(const ConfirmOptions& options) {
  const LedgerData data = value_or_throw(read_ledger(options.directory));
  const Report report = judge_results(data);
  const std::optional<Winner>& winner = report.winner;
  if (!winner)
    bad_input("{}: nothing to confirm: no comparison is FASTER, or none was chosen among several",
              options.directory);
  const Comparison& best = report.cells[winner->cell].comparisons[winner->comparison];
  // Another comparison may be the best by now, since more was measured; its confirmation stays.
  const int code = options.run.measure(confirmation_directory(options.directory),
                                       confirm_matrix(data, best.a_id, best.b_id),
                                       "confirms another comparison than the best one of now");
  if (code != kOk || options.run.json) return code;
  TextWriter text(options.run.terminal.style());
  text.raw("");
  text.line(winner_text(judge_results(data, {.traces = options.directory})));
  fmt::print("{}", text.take());
  return kOk;
}

} // namespace

void add_confirm(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "confirm", "measure the best of several comparisons again, in fresh launches");
  auto options = std::make_shared<ConfirmOptions>();
  command->add_option("directory", options->directory, "results directory")->required();
  options->run.add_data_to(*command);
  options->run.add_to(*command);
  command->callback([options, &exit_code] { exit_code = confirm(*options); });
}

} // namespace assay::cli
