// `assay export`: traces as Chrome JSON or CSV, for the tools that people already use.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "app/assay/output/json_output.h"
#include "app/assay/verbs.h"
#include "app/command_line/program.h"
#include "app/value_checks.h"
#include "core/files/output_target.h"
#include "core/ledger/ledger.h"
#include "core/result.h"
#include "core/sqlite/sqlite_file.h"
#include "core/text.h"
#include "core/trace/trace_file.h"
#include "experiments/analysis/explanations.h"
#include "experiments/evidence/cell_view.h"
#include "experiments/export/export_chrome.h"
#include "experiments/export/export_csv.h"
#include "experiments/import/import_trace.h"
#include "experiments/plan/matrix/cell_name.h"
#include "experiments/report/explain_wording.h"

namespace assay::cli {

namespace {

struct ExportOptions {
  std::vector<std::string> sources;
  std::string format = "chrome", out, cell, variant, steps; // variant: "A" or "A,B"
  bool json = false;
};

[[noreturn]] void too_many_traces() {
  bad_input("at most two traces can be exported side by side; export the others separately");
}

const LaunchRow* complete_trace(const LedgerData& data, const CellRow& cell) {
  const LaunchRow* launch = traced_launch(data, cell.id);
  return launch != nullptr && launch->state == LaunchState::Complete ? launch : nullptr;
}

// Whether traces/ has a file of the launch: "10.0.varlen.sqlite".
bool has_files(const std::string& directory, const LaunchRow& launch) {
  const std::vector<std::string> files = list_traces(directory);
  return std::any_of(files.begin(), files.end(), [&](const std::string& file) {
    return std::filesystem::path(file).filename().string().starts_with(
        fmt::format("{}.", launch.id));
  });
}

const CellRow& cell_to_export(const LedgerData& data, const ExportOptions& options) {
  const std::string& directory = options.sources.front();
  std::vector<std::string> traced, all;
  const CellRow* found = nullptr;
  for (const CellRow& cell : data.cells) {
    all.push_back(cell.name);
    if (const LaunchRow* launch = complete_trace(data, cell); launch != nullptr) {
      const bool kept = has_files(directory, *launch);
      if (kept) traced.push_back(cell.name);
      if (options.cell.empty() && (kept || found == nullptr)) found = &cell;
    }
    if (cell.name == options.cell) found = &cell;
  }
  if (!options.cell.empty()) require_cell("--cell", options.cell, all);
  const LaunchRow* launch = found == nullptr ? nullptr : complete_trace(data, *found);
  if (launch == nullptr || !has_files(directory, *launch))
    bad_input("{}: no trace to export: {}",
              directory,
              printable(why_no_trace(data, found == nullptr ? 0 : found->id)));
  if (options.cell.empty() && traced.size() > 1)
    bad_input("{}: several cells have traces; choose one with --cell: {}",
              directory,
              printable(fmt::format("{}", fmt::join(traced, ", "))));
  return *found;
}

// "A", or "A,B" at a comma that has a variant's name on both sides, else at every comma: a name may
// contain some.
std::vector<std::string> split_variants(const std::string& text,
                                        const std::vector<std::string>& known) {
  const auto is_known = [&](const std::string& name) {
    return std::ranges::count(known, name) > 0;
  };
  if (text.empty()) return {};
  if (is_known(text)) return {text};
  for (std::size_t comma = text.find(','); comma != std::string::npos;
       comma = text.find(',', comma + 1))
    if (is_known(text.substr(0, comma)) && is_known(text.substr(comma + 1)))
      return {text.substr(0, comma), text.substr(comma + 1)};
  return CLI::detail::split(text, ',');
}

// The variants that the user named, else those of the comparison that the cell is about.
std::vector<std::string>
choose_variants(const LedgerData& data, const CellRow& cell, const std::string& text) {
  std::vector<std::string> known;
  for (const VariantRow& variant : data.variants)
    if (variant.cell == cell.id && variant.role != Role::Control) known.push_back(variant.name);
  std::vector<std::string> named = split_variants(text, known);
  if (named.size() > 2) too_many_traces();
  if (named.size() == 2 && named[0] == named[1])
    bad_input("--variant names '{}' twice; give one, or two that differ", printable(named[0]));
  for (const std::string& name : named)
    if (std::find(known.begin(), known.end(), name) == known.end())
      bad_input("cell '{}' has no variant '{}'{}; it has: {}",
                printable(cell.name),
                printable(name),
                did_you_mean(name, known),
                printable(fmt::format("{}", fmt::join(known, ", "))));
  if (!named.empty()) return named;
  const Report report = judge_results(data);
  for (std::size_t i = 0; i < report.cells.size(); ++i) {
    if (report.cells[i].cell.id != cell.id) continue;
    if (const auto main = main_comparison(report, i))
      return {report.cells[i].comparisons[*main].a, report.cells[i].comparisons[*main].b};
  }
  bad_input("cell '{}' compares nothing; choose one or two of its variants with --variant: {}",
            printable(cell.name),
            printable(fmt::format("{}", fmt::join(known, ", "))));
}

std::vector<std::string> find_traces(const ExportOptions& options) {
  std::error_code error;
  if (!std::filesystem::is_directory(options.sources.front(), error)) {
    if (!options.cell.empty() || !options.variant.empty())
      bad_input("--cell and --variant choose from a results directory; {} is a file",
                options.sources.front());
    return options.sources;
  }
  if (options.sources.size() > 1)
    bad_input("give one results directory, or one or two trace files");
  const LedgerData data = value_or_throw(read_ledger(options.sources.front()));
  const CellRow& cell = cell_to_export(data, options);
  const std::int64_t launch = complete_trace(data, cell)->id;
  std::vector<std::string> paths;
  for (const std::string& variant : choose_variants(data, cell, options.variant))
    paths.push_back(
        (std::filesystem::path(options.sources.front()) / trace_file_name(launch, 0, variant))
            .string());
  return paths;
}

// "3-5" or "4".
std::optional<StepWindow> parse_steps(const std::string& text) {
  if (text.empty()) return std::nullopt;
  const auto number = [&](std::string_view part) {
    std::int64_t value = 0;
    const auto [end, code] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (code != std::errc() || end != part.data() + part.size() || value < 0)
      bad_input("--steps {}: expected a step or a range of steps, such as 4 or 3-5",
                printable(text));
    return value;
  };
  const std::string_view view = text;
  const std::size_t dash = view.find('-');
  StepWindow window;
  window.first = number(view.substr(0, dash));
  window.last = dash == std::string_view::npos ? window.first : number(view.substr(dash + 1));
  if (window.last < window.first) bad_input("--steps {}: ends before it starts", printable(text));
  return window;
}

// What is written to standard output leaves the words to standard error.
void print_summary(const ExportOptions& options,
                   const std::vector<std::string>& traces,
                   const ExportSummary& summary) {
  std::FILE* to = is_standard_output(options.out) ? stderr : stdout;
  fmt::print(to,
             "{}: {} {} from {} of {}, {}{}\n",
             is_standard_output(options.out) ? "standard output" : printable(options.out),
             summary.events,
             options.format == "csv" ? "rows" : "events",
             fmt::format("{} step{}", summary.steps, summary.steps == 1 ? "" : "s"),
             printable(fmt::format("{}", fmt::join(traces, " and "))),
             human_bytes(static_cast<double>(summary.bytes)),
             options.out.ends_with(".gz") ? " before compression" : "");
  if (summary.lost > 0)
    fmt::print(to, "warning: {} rows have lost their time stamp and were left out\n", summary.lost);
  if (summary.clamped > 0)
    fmt::print(to,
               "warning: {} events end before they start; they are drawn without length\n",
               summary.clamped);
  if (summary.moved > 0)
    fmt::print(to,
               "{} slices overlap others of their track; they are on tracks named (overlap)\n",
               summary.moved);
  if (summary.placed > 0)
    fmt::print(to,
               "{} launches were not recorded (libraries make them through the driver); marks "
               "named 'launch (not recorded)' show them after the preceding call\n",
               summary.placed);
  if (options.format == "chrome" && !is_standard_output(options.out))
    fmt::print(to, "open it in https://ui.perfetto.dev or chrome://tracing\n");
}

void print_summary_json(const ExportOptions& options,
                        const std::vector<std::string>& traces,
                        const ExportSummary& summary) {
  print_json({{"out", options.out},
              {"format", options.format},
              {"traces", traces},
              {"rows", summary.events},
              {"steps", summary.steps},
              {"bytes", summary.bytes},
              {"lost", summary.lost},
              {"without_length", summary.clamped},
              {"moved", summary.moved},
              {"launches_not_recorded", summary.placed}});
}

// Two files may be of anything; those of a results directory are of one cell.
void note_different_cells(const std::vector<std::string>& paths) {
  if (paths.size() != 2) return;
  std::vector<std::string> cells, places;
  for (const std::string& path : paths) {
    const Trace trace = value_or_throw(read_trace(path, kTraceSteps));
    cells.push_back(fmt::format("{} (unit {})", trace.value("cell"), trace.value("unit")));
    if (trace.value("cell").empty()) return;
    places.push_back(fmt::format("{} is of {}", path, cells.back()));
  }
  if (cells[0] != cells[1])
    print_note(
        fmt::format("note: the traces are of different cells, so their difference is not the "
                    "effect of a level: {}",
                    fmt::join(places, ", ")));
}

// A file that is there is replaced only where its name is that of an export. SQLite files and what
// is no file have errors of their own.
void keep_other_files(const std::string& out) {
  std::error_code none;
  if (out.ends_with(".json") || out.ends_with(".json.gz") ||
      !std::filesystem::is_regular_file(out, none) || is_sqlite_file(out))
    return;
  bad_input("--out {}: this file is there, and its name is not that of an export; choose another "
            "name, or one that ends in .json or .json.gz",
            out);
}

void export_traces(const ExportOptions& options) {
  if (options.sources.size() > 2) too_many_traces();
  if (options.format == "csv" && is_standard_output(options.out))
    bad_input("--format csv writes several files; name a directory instead of -o {}", options.out);
  if (options.json && is_standard_output(options.out))
    bad_input("--json prints on standard output, and so does -o {}; name a file", options.out);
  if (options.format == "chrome" && options.out.ends_with(".csv"))
    bad_input("--out {}: this would be Chrome JSON; tables are --format csv -o DIRECTORY",
              options.out);
  if (options.format == "chrome") keep_other_files(options.out);
  const std::optional<StepWindow> steps = parse_steps(options.steps);
  std::vector<std::string> traces = find_traces(options);
  for (std::string& trace : traces) trace = value_or_throw(readable_trace(trace));
  const ExportSummary summary = options.format == "csv" ? export_csv(traces, steps, options.out)
                                                        : export_chrome(traces, steps, options.out);
  if (options.json)
    print_summary_json(options, traces, summary);
  else
    print_summary(options, traces, summary);
  note_different_cells(traces);
}

} // namespace

void add_export(CLI::App& app, int&) {
  CLI::App* command = app.add_subcommand(
      "export", "traces for other tools: Chrome JSON (Perfetto, HTA, TraceLens) or CSV");
  auto options = std::make_shared<ExportOptions>();
  command
      ->add_option("source",
                   options->sources,
                   "results directory, or one or two trace files (baseline and candidate)")
      ->required();
  one_of(command->add_option("--format", options->format, "Chrome JSON, the default, or CSV"),
         {"chrome", "csv"});
  command
      ->add_option(
          "-o,--out",
          options->out,
          "file, compressed if it ends in .gz, or - for standard output; with --format csv a "
          "directory")
      ->type_name("PATH")
      ->required();
  command->add_option("--cell", options->cell, "cell of the results directory");
  command->add_option(
      "--variant",
      options->variant,
      "one variant, or two side by side as BASELINE,CANDIDATE (default: those that explain "
      "compares)");
  command->add_option("--steps", options->steps, "only these steps: 4 or 3-5 (default: all rows)");
  command->add_flag("--json", options->json, "print the summary as JSON");
  command->callback([options] { export_traces(*options); });
}

} // namespace assay::cli
