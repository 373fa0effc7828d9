// `assay report`: judges a results directory, prints the verdicts and writes the report files.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>

#include "app/assay/terminal.h"
#include "app/assay/verbs.h"
#include "core/directory_lock.h"
#include "core/ledger.h"
#include "core/result.h"
#include "experiments/analysis/render.h"
#include "experiments/analysis/trace_evidence.h"
#include "experiments/lints.h"
#include "experiments/speed.h"

namespace assay::cli {

namespace {

struct ReportOptions {
  std::string directory, out;
  bool json = false, ascii = false, no_files = false;
  int width = 0;
};

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.flush();
  if (!file)
    bad_input("cannot write {}: {}; free some space or choose another directory with --out",
              path,
              std::strerror(errno));
}

void report(const ReportOptions& options) {
  const LedgerData data = value_or_throw(read_ledger(options.directory));
  Report report = analyze(data);
  attach_explanations(report, data, options.directory);
  attach_speed(report, data);
  report.lints = lint(data);
  const std::string out = options.out.empty() ? options.directory : options.out;
  if (!options.no_files) {
    make_directory(out);
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
