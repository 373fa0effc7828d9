// `assay calibrate`: does this machine, with a cell's configuration, see what is there and nothing
// else?
#include <cstdio>
#include <memory>

#include "app/assay/find_cell.h"
#include "app/assay/hand_over.h"
#include "app/assay/verbs.h"
#include "app/command_line/program.h"
#include "core/files/shell_text.h"
#include "core/ledger/calibration_store.h"
#include "core/ledger/directory_lock.h"
#include "core/ledger/ledger.h"
#include "core/result.h"
#include "core/text.h"
#include "experiments/analysis/calibration.h"
#include "experiments/plan/calibration_matrix.h"
#include "experiments/report/text_layout.h"
#include "profilers/machine/machine_info.h"

namespace assay::cli {

namespace {

struct CalibrateOptions {
  std::string directory, cell;
  HandOver run;
};

// Without --cell the first.
const CellRow& calibrated_cell(const LedgerData& data, const CalibrateOptions& options) {
  if (data.cells.empty()) bad_input("{}: its plan has no cell", options.directory);
  if (options.cell.empty()) return data.cells.front();
  return data.cells[find_cell(judge_results(data), options.cell)];
}

// Known before minutes are spent.
std::string writable_store() {
  std::string path = calibration_store_path();
  if (path.empty())
    bad_input("neither XDG_DATA_HOME nor HOME is set, so no calibration can be kept; set one");
  value_or_throw(read_calibration_store(path));
  return path;
}

// So that its report cites the calibration; later runs take it from the store. False where the
// ledger cannot be written.
bool cite(const std::string& directory, const LedgerData& data, const CalibrationRow& row) {
  if (data.spec.schema < kLedgerSchema || !lock_holder(directory).empty()) return false;
  const std::unique_ptr<Ledger> ledger = Ledger::open(directory, data);
  ledger->add({row});
  ledger->finish();
  return true;
}

int calibrate(const CalibrateOptions& options) {
  const std::string store = writable_store(), out = calibration_directory(options.directory);
  const LedgerData data = value_or_throw(read_ledger(options.directory));
  const CellRow& cell = calibrated_cell(data, options);
  const int code = options.run.measure(
      out,
      calibration_matrix(data, cell),
      fmt::format("calibrates by another plan than the reference of '{}'", printable(cell.name)));
  if (code != kOk) return code;
  const LedgerData measured = value_or_throw(read_ledger(out));
  const Result<CalibrationRow> row = calibration_row(measured);
  if (!row) {
    print_error(fmt::format(
        "{}: {}; to calibrate anew, remove {}", out, row.error().message, shell_path(out)));
    return kIncomplete;
  }
  store_calibration(store, *row);
  cite(out, measured, *row);
  const bool cited = cite(options.directory, data, *row);
  if (options.run.json) return kOk;
  TextWriter text(options.run.terminal.style());
  text.raw("");
  text.line(calibration_text(*row) + ".");
  if (!cited)
    text.line(fmt::format("{} cannot cite it: an older Assay wrote its ledger, or a run is writing "
                          "it.",
                          options.directory));
  if (row->host != machine_info().host)
    text.line(fmt::format("It was measured on {}, not here; remove {} to calibrate this machine.",
                          row->host,
                          shell_word(out)));
  fmt::print("{}", text.take());
  return kOk;
}

} // namespace

void add_calibrate(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "calibrate",
      "check that this machine finds a planted slow-down of 2 %, and none where there is none");
  auto options = std::make_shared<CalibrateOptions>();
  command->add_option("directory", options->directory, "results directory")->required();
  command->add_option(
      "--cell", options->cell, "whose reference configuration is measured (default: the first)");
  options->run.add_data_to(*command);
  options->run.add_to(*command);
  command->callback([options, &exit_code] { exit_code = calibrate(*options); });
}

} // namespace assay::cli
