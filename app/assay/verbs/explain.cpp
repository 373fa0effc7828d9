// `assay explain`: breaks the difference of two variants down by stage, kernel and operator, from
// the traces of a results directory.
#include <algorithm>
#include <filesystem>
#include <memory>

#include "app/assay/find_cell.h"
#include "app/assay/output/terminal.h"
#include "app/assay/verbs.h"
#include "app/value_checks.h"
#include "core/files/shell_text.h"
#include "core/ledger/ledger.h"
#include "core/result.h"
#include "core/text.h"
#include "core/trace/trace_file.h"
#include "experiments/analysis/report.h"
#include "experiments/analysis/wording.h"
#include "experiments/import/import_trace.h"
#include "experiments/report/explain_wording.h"
#include "experiments/report/render_explain.h"

namespace assay::cli {

namespace {

struct ExplainOptions {
  std::string directory, other, cell, a, b;
  bool json = false, memory = false;
  TerminalOptions terminal;
  std::size_t top = 10;
};

// The comparison of the levels that the user named, else the cell's main one. A side that is not
// named is that of the main one, or the reference.
ComparisonIndex find_comparison(const Report& report, const ExplainOptions& options) {
  const std::size_t cell = find_cell(report, options.cell);
  const std::vector<Comparison>& comparisons = report.cells[cell].comparisons;
  const auto main = main_comparison(report, cell);
  if (!main) bad_input("cell '{}' compares nothing", printable(options.cell));
  const std::string candidate = options.b.empty() ? comparisons[*main].b : options.b;
  std::vector<std::string> known;
  for (std::size_t i = 0; i < comparisons.size(); ++i) {
    const bool a =
        options.a.empty() ? comparisons[i].against_reference : comparisons[i].a == options.a;
    if (a && comparisons[i].b == candidate) return {cell, i};
    known.push_back(fmt::format("--baseline {} --candidate {}",
                                shell_word(comparisons[i].a),
                                shell_word(comparisons[i].b)));
  }
  if (options.a.empty() && options.b.empty()) return {cell, *main};
  for (const std::string& level : {options.a, options.b})
    if (!level.empty() && std::ranges::none_of(comparisons, [&](const Comparison& one) {
          return one.a == level || one.b == level;
        }))
      bad_input("cell '{}' compares no level '{}'; it has: {}",
                printable(options.cell),
                printable(level),
                printable(fmt::format("{}", fmt::join(known, ", "))));
  bad_input("cell '{}' has no comparison --baseline {} --candidate {}; it has: {}",
            printable(options.cell),
            options.a.empty() ? "(the reference)" : printable(options.a),
            printable(candidate),
            printable(fmt::format("{}", fmt::join(known, ", "))));
}

std::vector<ComparisonIndex> main_comparisons(const Report& report) {
  std::vector<ComparisonIndex> result;
  for (std::size_t i = 0; i < report.cells.size(); ++i)
    if (const auto main = main_comparison(report, i)) result.emplace_back(i, *main);
  return result;
}

// An answer needs at least one trace.
void require_traces(const Report& report,
                    const std::vector<ComparisonIndex>& which,
                    const std::string& directory) {
  std::map<std::string, std::vector<std::string>> cells; // by what keeps them from being explained
  for (const auto& [cell, comparison] : which) {
    if (report.cells[cell].comparisons[comparison].explanation) return;
    cells[report.cells[cell].comparisons[comparison].no_explanation].push_back(
        report.cells[cell].cell.name);
  }
  std::string why = cells.empty() ? "the plan has no comparison" : "";
  for (const auto& [reason, names] : cells)
    why += fmt::format("{}{}: {}", why.empty() ? "" : "; ", fmt::join(names, ", "), reason);
  bad_input("{}: no trace to explain: {}; --memory needs none", directory, why);
}

void explain_memory(const Report& report,
                    const std::vector<ComparisonIndex>& which,
                    const ExplainOptions& options,
                    const TableStyle& style) {
  if (options.json) {
    fmt::print("{}", render_memory_json(report, which));
    return;
  }
  for (const ComparisonIndex& one : which)
    fmt::print("{}{}",
               one == which.front() ? "" : "\n",
               render_explain_memory(report, one, options.top, style));
  if (!options.cell.empty()) return;
  TextWriter out(style);
  out.raw("");
  print_command(out,
                "other levels:",
                fmt::format("assay explain {} --memory --cell NAME --candidate LEVEL",
                            shell_path(options.directory)));
  fmt::print("{}", out.take());
}

// What a trace is, and how its steps and stages were found.
std::string origin_text(const char* side, const std::string& path, const Trace& trace) {
  const std::string source = trace.value("source");
  if (source.empty())
    return fmt::format("{}: {}, {} {}", side, path, trace.value("cell"), trace.value("variant"));
  return fmt::format("{}: {}, {}; steps: {}; stages: {}",
                     side,
                     path,
                     source,
                     trace.value("steps"),
                     trace.value("stages"));
}

void explain_traces(const ExplainOptions& options) {
  for (const std::string& path : {options.directory, options.other})
    if (std::error_code error; !std::filesystem::is_regular_file(path, error))
      bad_input("{}: two traces are compared, and this is no file", printable(path));
  if (options.memory || !options.cell.empty() || !options.a.empty() || !options.b.empty())
    bad_input("--memory, --cell, --baseline and --candidate are of a results directory, not of two "
              "traces");
  const Trace a = value_or_throw(read_trace(value_or_throw(readable_trace(options.directory)))),
              b = value_or_throw(read_trace(value_or_throw(readable_trace(options.other))));
  const Explanation explanation = assay::explain(a, b, std::nullopt);
  const std::vector<std::string> origins{origin_text("baseline", options.directory, a),
                                         origin_text("candidate", options.other, b)};
  fmt::print("{}",
             options.json ? render_explain_traces_json(explanation, origins, options.top)
                          : render_explain_traces(
                                explanation, origins, options.top, options.terminal.style()));
}

void explain(ExplainOptions options) {
  if (!options.other.empty()) return explain_traces(options);
  const LedgerData data = value_or_throw(read_ledger(options.directory));
  if (options.cell.empty() && !(options.a.empty() && options.b.empty())) {
    if (data.cells.size() != 1)
      bad_input("--baseline and --candidate are levels of one cell: add --cell NAME");
    options.cell = data.cells.front().name;
  }
  const Report report = judge_results(data, {.traces = options.directory});
  const bool one = !options.cell.empty();
  const std::vector<ComparisonIndex> which =
      one ? std::vector{find_comparison(report, options)} : main_comparisons(report);
  const TableStyle style = options.terminal.style();
  if (options.memory) return explain_memory(report, which, options, style);
  require_traces(report, which, options.directory);
  if (options.json)
    fmt::print("{}", render_explain_json(report, which, options.top));
  else if (one)
    fmt::print("{}", render_explain_table(report, which.front(), options.top, style));
  else
    fmt::print("{}\nmore: assay explain {} --cell {}\n",
               render_explain_summary(report, which, style),
               printable(shell_path(options.directory)),
               report.cells.size() == 1 ? printable(shell_word(report.cells.front().cell.name))
                                        : "NAME");
}

} // namespace

void add_explain(CLI::App& app, int&) {
  CLI::App* command = app.add_subcommand(
      "explain", "break a difference down by stage, kernel and operator, from the traces");
  auto options = std::make_shared<ExplainOptions>();
  command->add_option("directory", options->directory, "results directory, or a trace")->required();
  command->add_option("other", options->other, "a second trace: what differs from the first");
  command->add_option(
      "--cell", options->cell, "explain this cell in full (default: all, in short)");
  command->add_option(
      "--baseline", options->a, "level to compare with (default: the cell's reference level)");
  command->add_option(
      "--candidate",
      options->b,
      "level that is compared (default: the one that answers a claim, else the last)");
  command->add_option("--top", options->top, "kernel and operator rows to show")
      ->check(whole_number(0, 100'000));
  command->add_flag(
      "--memory", options->memory, "what the bytes at the peak of memory are; needs no traces");
  command->add_flag("--json", options->json, "print JSON (docs/report-schema.md)");
  options->terminal.add_to(*command);
  command->callback([options] { explain(*options); });
}

} // namespace assay::cli
