// `assay compare`: two results that were not measured together, and how much weaker that is.
#include "experiments/unpaired/unpaired.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/assay/output/json_output.h"
#include "app/assay/output/terminal.h"
#include "app/assay/verbs.h"
#include "core/ledger/ledger.h"
#include "core/result.h"
#include "experiments/plan/matrix/cell_name.h"
#include "experiments/unpaired/render.h"

namespace assay::cli {

namespace {

struct CompareOptions {
  std::string first, second, cell;
  bool json = false;
  TerminalOptions terminal;
};

void refuse_one_directory(const CompareOptions& options) {
  std::error_code error; // of what is no directory the ledger's reader speaks
  if (std::filesystem::equivalent(options.first, options.second, error))
    bad_input("{} and {} are the same directory; name two results that were measured apart",
              options.first,
              options.second);
}

void compare(const CompareOptions& options) {
  refuse_one_directory(options);
  const LedgerData first = value_or_throw(read_ledger(options.first));
  const LedgerData second = value_or_throw(read_ledger(options.second));
  const UnpairedReport report =
      value_or_throw(compare_runs({first, options.first}, {second, options.second}));
  if (!options.cell.empty()) {
    std::vector<std::string> names;
    for (const UnpairedCell& cell : report.cells) names.push_back(cell.cell);
    require_cell("--cell", options.cell, names);
  }
  if (options.json)
    print_json(to_json(report, options.cell));
  else
    fmt::print("{}", render_table(report, options.terminal.style(), options.cell));
}

} // namespace

void add_compare(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "compare", "two results that were not measured together, unpaired: last month's and today's");
  auto options = std::make_shared<CompareOptions>();
  command->add_option("first", options->first, "results directory, for example of an older build")
      ->required();
  command->add_option("second", options->second, "results directory to compare with it")
      ->required();
  command->add_option("--cell", options->cell, "show this cell only; alpha is shared by all");
  command->add_flag("--json", options->json, "print JSON");
  options->terminal.add_to(*command);
  command->callback([options] { compare(*options); });
}

} // namespace assay::cli
