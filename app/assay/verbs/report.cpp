// `assay report`: judges a results directory, prints the verdicts and writes the report files.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <utility>

#include "app/assay/terminal.h"
#include "app/assay/verbs.h"
#include "core/files/output_file.h"
#include "core/ledger/directory_lock.h"
#include "core/ledger/ledger.h"
#include "core/result.h"
#include "experiments/analysis/estimate_roofline.h"
#include "experiments/analysis/explanations.h"
#include "experiments/plan/shape_warnings.h"
#include "experiments/report/render.h"

namespace assay::cli {

namespace {

struct ReportOptions {
  std::string directory, out;
  bool json = false, ascii = false, no_files = false;
  int width = 0;
};

void write_file(const std::string& path, std::string text) {
  OutputFile file(path);
  file.write(std::move(text));
  file.finish();
}

std::size_t explained(const std::string& markdown) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = markdown.find("where: ", at)) != std::string::npos; ++at) ++count;
  return count;
}

// Traces are large and not always kept. Without them the ledger alone cannot give a report again
// that says where differences sit.
void keep_explanations(const std::string& out, const Report& report, const LedgerData& data) {
  std::ifstream file(out + "/report.md", std::ios::binary);
  const std::string old{std::istreambuf_iterator<char>(file), {}};
  const bool traces_gone =
      std::any_of(report.cells.begin(), report.cells.end(), [&](const CellReport& cell) {
        return data.latest_launch(cell.cell.id, LaunchKind::Traced, LaunchState::Complete) &&
               std::any_of(cell.comparisons.begin(), cell.comparisons.end(), [](const auto& c) {
                 return !c.explanation;
               });
      });
  if (traces_gone && explained(old) > explained(render_markdown(report)))
    bad_input("{}: its report says where differences sit, from traces that are not there any more; "
              "a new one would lose that. Add --no-files to print only, or --out for another place",
              out);
}

void report(const ReportOptions& options) {
  const LedgerData data = value_or_throw(read_ledger(options.directory));
  Report report = analyze(data);
  explain_from_traces(report, data, options.directory);
  estimate_roofline(report, data);
  report.shape_warnings = shape_warnings(data);
  report.source_errors = source_errors(data);
  const std::string out = options.out.empty() ? options.directory : options.out;
  if (!options.no_files) {
    make_directory(out);
    keep_explanations(out, report, data);
    write_file(out + "/report.md", render_markdown(report));
    write_file(out + "/report.json", render_json(report));
    write_file(out + "/report.csv", render_csv(data));
    write_file(out + "/report.html", render_html(report));
  }
  if (options.json) {
    fmt::print("{}\n", render_json(report));
    return;
  }
  fmt::print("{}", render_table(report, terminal_style(options.ascii, options.width)));
  if (!options.no_files)
    fmt::print("\nreport files: {}/report.html, .md, .json, .csv   window: assay view {}\n",
               out,
               options.directory);
}

} // namespace

void add_report(CLI::App& app, int&) {
  CLI::App* command =
      app.add_subcommand("report", "verdict table; writes report.html, .md, .json and .csv");
  auto options = std::make_shared<ReportOptions>();
  command->add_option("directory", options->directory, "results directory")->required();
  command->add_option(
      "--out", options->out, "where the report files go (default: the results directory)");
  command->add_flag("--json", options->json, "print the report as JSON instead of the table");
  command->add_flag("--no-files", options->no_files, "print only");
  command->add_flag("--ascii", options->ascii, "no characters beyond ASCII");
  command->add_option("--width", options->width, "columns (default: the terminal's)")
      ->check(CLI::Range(60, 400));
  command->callback([options] { report(*options); });
}

} // namespace assay::cli
