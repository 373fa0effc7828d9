// `assay report`: prints the verdicts of a results directory and writes the report files.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/assay/find_cell.h"
#include "app/assay/output/terminal.h"
#include "app/assay/programs.h"
#include "app/assay/verbs.h"
#include "core/files/output_file.h"
#include "core/files/shell_text.h"
#include "core/ledger/directory_lock.h"
#include "core/ledger/ledger.h"
#include "core/result.h"
#include "core/text.h"
#include "experiments/analysis/report.h"
#include "experiments/evidence/owed/continuation.h"
#include "experiments/evidence/owed/redo.h"
#include "experiments/report/render.h"
#include "experiments/report/text_layout.h"

namespace assay::cli {

namespace {

constexpr int kUnknownCount = std::numeric_limits<int>::max();

struct ReportOptions {
  std::string directory, out, cell;
  bool json = false, no_files = false, verbose = false;
  TerminalOptions terminal;
};

bool traces_gone(const Report& report, const LedgerData& data) {
  return std::any_of(report.cells.begin(), report.cells.end(), [&](const CellReport& cell) {
    return data.latest_launch(cell.cell.id, LaunchKind::Traced, LaunchState::Complete) &&
           std::any_of(cell.comparisons.begin(), cell.comparisons.end(), [](const auto& c) {
             return !c.explanation;
           });
  });
}

// What a report.json says of the launches that it is made of.
std::vector<std::string> launches_of(const nlohmann::json& report) {
  std::vector<std::string> launches;
  if (report.contains("launches") && report["launches"].is_array())
    for (const auto& launch : report["launches"])
      if (launch.is_object())
        launches.push_back(fmt::format("{} {} {}",
                                       launch.value("id", nlohmann::json()).dump(),
                                       launch.value("started_utc", nlohmann::json()).dump(),
                                       launch.value("state", nlohmann::json()).dump()));
  return launches;
}

// Comparisons with a breakdown in the report files that are there, if they are of these launches. A
// page without its report.json may hold any number; files of earlier builds have no count.
int explained_before(const std::string& out, const Report& report) {
  std::ifstream file(out + "/report.json", std::ios::binary);
  std::error_code absent; // of a size: such a page holds nothing either
  const auto page = std::filesystem::file_size(out + "/report.html", absent);
  if (!file) return !absent && page > 0 ? kUnknownCount : 0;
  if (file.peek() == std::ifstream::traits_type::eof()) return 0;
  const auto old = nlohmann::json::parse(file, nullptr, false);
  if (!old.is_object() || !old.contains("cells")) return kUnknownCount;
  if (launches_of(old) != launches_of(nlohmann::json::parse(render_json(report)))) return 0;
  if (old.contains("explained") && old["explained"].is_number_integer())
    return old["explained"].get<int>();
  int count = 0;
  for (const auto& cell : old["cells"])
    if (cell.is_object() && cell.contains("comparisons"))
      for (const auto& comparison : cell["comparisons"])
        count += comparison.is_object() && comparison.contains("explanation") &&
                 comparison["explanation"].is_object();
  return count;
}

// Traces are large and not always kept. Without them the ledger alone gives no breakdown, so files
// of the same launches that contain one stay as they are.
bool would_lose_explanations(const std::string& out, const Report& report, const LedgerData& data) {
  return traces_gone(report, data) && explained_before(out, report) > explained_comparisons(report);
}

// All or, where the disk is full or nobody may write there, none.
void write_files(const std::string& out, const Report& report, const LedgerData& data) {
  std::vector<std::unique_ptr<OutputFile>> files;
  for (const ReportFile& file : kReportFiles) {
    files.push_back(std::make_unique<OutputFile>(fmt::format("{}/{}", out, file.name)));
    files.back()->write(file.render(report, data));
  }
  for (const auto& file : files) file->finish();
}

enum class Files { NotAsked, Unchanged, Written };

Files update_files(const ReportOptions& options,
                   const std::string& out,
                   const Report& report,
                   const LedgerData& data) {
  if (options.no_files) return Files::NotAsked;
  try {
    make_directory(out);
    if (would_lose_explanations(out, report, data)) return Files::Unchanged;
    write_files(out, report, data);
  } catch (const Failure& failure) {
    throw Failure(failure.kind(),
                  fmt::format("{}; {}--no-files only prints the verdicts",
                              failure.what(),
                              options.out.empty()
                                  ? "or --out DIR writes the report files elsewhere, and "
                                  : ""));
  }
  return Files::Written;
}

std::string files_line(const ReportOptions& options, const std::string& out, Files files) {
  if (files == Files::Unchanged)
    return fmt::format(
        "note: the report files in {} are unchanged: they may contain breakdowns of "
        "comparisons whose traces cannot be read any more. --out DIR writes new files elsewhere.",
        out);
  return fmt::format("report files: {}, .md, .json, .csv   window: assay view {}",
                     shell_path(out + "/report.html"),
                     shell_path(options.directory));
}

bool is_disturbed_unequally(const CellReport& cell) {
  return std::ranges::any_of(cell.comparisons, [](const Comparison& comparison) {
    return comparison.verdict.validity == Validity::Contended &&
           comparison.pairs.contended->code == ReasonCode::ArmsDisturbed;
  });
}

// The command, where the recorded one, in whose words the report speaks, names other places.
std::string
redo_from_here(const ReportOptions& options, const LedgerData& data, const Report& report) {
  std::vector<std::string> again;
  if (!redo_events(data, {{kCauseDisturbed}, {}}).empty()) again.push_back(kCauseDisturbed);
  for (const CellReport& cell : report.cells)
    if (is_disturbed_unequally(cell)) again.push_back(cell.cell.name);
  if (again.empty()) return "";
  const std::string command = redo_command(data.spec, kAllCells, options.directory, again);
  if (command == recorded_redo_command(data.spec, kAllCells, again)) return "";
  return why_not_continued(data, installed_worker_build()).empty() ? command : "";
}

void report(const ReportOptions& options) {
  const LedgerData data = value_or_throw(read_ledger(options.directory));
  const Report report = judge_results(data, {.traces = options.directory});
  if (!options.cell.empty()) find_cell(report, options.cell);
  const std::string directory = options.out.empty() ? options.directory : options.out;
  const TableStyle style = options.terminal.style();
  Files files = Files::NotAsked; // written first: whoever reads the text may leave early
  std::optional<Failure> failed;
  try {
    files = update_files(options, directory, report, data);
  } catch (const Failure& failure) {
    failed = failure;
  }
  if (options.json)
    fmt::print("{}\n",
               render_json(options.cell.empty() ? report : report_of_cell(report, options.cell)));
  else
    fmt::print("{}",
               render_table(
                   report, style, {options.cell, options.verbose, shell_path(options.directory)}));
  if (failed) throw *failed;
  const std::string line = files_line(options, directory, files);
  if (options.json && files == Files::Unchanged) fmt::print(stderr, "{}\n", line);
  if (options.json) return;
  const std::string redo = redo_from_here(options, data, report);
  TextWriter out(style);
  if (files != Files::NotAsked || !redo.empty()) out.raw("");
  if (!redo.empty()) print_command(out, "to measure disturbed launches again from here:", redo);
  if (files != Files::NotAsked) out.line(line);
  fmt::print("{}", out.take());
}

} // namespace

void add_report(CLI::App& app, int&) {
  CLI::App* command =
      app.add_subcommand("report", "print the verdicts; write report.html, .md, .json and .csv");
  auto options = std::make_shared<ReportOptions>();
  command->add_option("directory", options->directory, "results directory")->required();
  CLI::Option* out = command->add_option(
      "--out", options->out, "directory of the report files (default: the results directory)");
  command->add_option(
      "--cell", options->cell, "show this cell only, in detail; the files have all cells");
  command->add_flag("--verbose", options->verbose, "show every comparison and record in detail");
  command->add_flag("--json", options->json, "print the report as JSON instead of the table");
  command->add_flag("--no-files", options->no_files, "print only, write no files")->excludes(out);
  options->terminal.add_to(*command);
  command->callback([options] { report(*options); });
}

} // namespace assay::cli
