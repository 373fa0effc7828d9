// `assay claims`: what documents claim, and what the named results show.
#include "experiments/plan/claims/claims_file.h"

#include <cstdio>
#include <memory>

#include "app/assay/output/terminal.h"
#include "app/assay/programs.h"
#include "app/assay/results_directories.h"
#include "app/assay/verbs.h"
#include "core/ledger/ledger.h"
#include "core/result.h"
#include "experiments/analysis/report.h"
#include "experiments/report/claims/claim_sheet.h"
#include "experiments/report/text_layout.h"

namespace assay::cli {

namespace {

struct ClaimsOptions {
  std::vector<std::string> directories;
  bool all = false, json = false, markdown = false;
  TerminalOptions terminal;
};

SheetSource source_of(const std::string& directory) {
  return {directory, judge_results(value_or_throw(read_ledger(directory)), {.traces = directory})};
}

void print_claims(const ClaimsOptions& options) {
  const std::vector<ClaimRow> known = value_or_throw(load_claims(data_directory("claims")));
  std::vector<std::string> directories;
  for (const std::string& directory : options.directories) add_once(directories, directory);
  std::vector<SheetSource> sources;
  for (const std::string& directory : directories) sources.push_back(source_of(directory));
  std::vector<SheetEntry> sheet = claim_sheet(known, sources);
  if (options.json) {
    fmt::print("{}", render_claims_json(sheet));
    return;
  }
  if (options.markdown) {
    fmt::print("{}", render_claims_markdown(sheet));
    return;
  }
  std::size_t without = 0; // a result, where results are asked for
  if (!sources.empty() && !options.all)
    without = std::erase_if(sheet, [](const SheetEntry& entry) { return entry.results.empty(); });
  if (!sheet.empty()) fmt::print("{}", render_claims_table(sheet, options.terminal.style()));
  if (without == 0) return;
  TextWriter out(options.terminal.style());
  if (!sheet.empty()) out.raw("");
  out.line(fmt::format("{} claim{} without a result here: --all lists them, with the reasons",
                       without,
                       without == 1 ? "" : "s"));
  fmt::print("{}", out.take());
}

} // namespace

void add_claims(CLI::App& app, int&) {
  CLI::App* command = app.add_subcommand(
      "claims", "every claim: source, conditions, what was measured, verdict and where");
  auto options = std::make_shared<ClaimsOptions>();
  command->add_option("results",
                      options->directories,
                      "results directories (default: none, which lists the claims alone)");
  command->add_flag("--all", options->all, "also claims without a result in these directories");
  CLI::Option* json =
      command->add_flag("--json", options->json, "print JSON (docs/report-schema.md)");
  command->add_flag("--markdown", options->markdown, "print a page of all claims, by document")
      ->excludes(json);
  options->terminal.add_to(*command);
  command->callback([options] { print_claims(*options); });
}

} // namespace assay::cli
