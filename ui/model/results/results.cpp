#include "ui/model/results/results.h"

#include <filesystem>

#include "core/trace/trace_file.h"
#include "core/trace/trace_schema.h"
#include "experiments/evidence/cell_view.h"
#include "experiments/report/explain_wording.h"
#include "ui/model/results/runs_model.h"

namespace assay {
namespace {

void build_models(Results& results) {
  results.places.clear();
  results.losses.clear();
  results.speeds.clear();
  results.memories.clear();
  for (std::size_t cell = 0; cell < results.report.cells.size(); ++cell)
    for (std::size_t i = 0; i < results.report.cells[cell].comparisons.size(); ++i) {
      const CellReport& of = results.report.cells[cell];
      results.places.push_back({cell, i});
      results.losses.push_back(loss_model(of, of.comparisons[i]));
      results.memories.push_back(memory_model(of.comparisons[i]));
      Section speed = comparison_roofline(of, of.comparisons[i]);
      results.speeds.push_back(speed.empty() ? std::nullopt : std::optional(std::move(speed)));
    }
  results.verdicts = verdict_model(results.data, results.report);
  results.sections = run_sections(results.report);
}

} // namespace

Result<Results> read_results(const std::string& directory, bool explained) {
  Result<LedgerData> data = read_ledger(directory);
  if (!data) return data.error();
  Results results;
  results.directory = directory;
  results.data = std::move(*data);
  results.report = judge_results(results.data, {.traces = explained ? directory : ""});
  results.explained = explained;
  build_models(results);
  return results;
}

std::size_t Results::main_row() const {
  const auto main =
      report.cells.empty() ? std::optional<std::size_t>() : main_comparison(report, 0);
  for (std::size_t row = 0; main && row < places.size(); ++row)
    if (places[row].cell == 0 && places[row].comparison == *main) return row;
  return 0;
}

TracePath Results::trace_path(std::size_t row, std::size_t side) const {
  const CellReport& cell = report.cells[places[row].cell];
  const Comparison& comparison = cell.comparisons[places[row].comparison];
  const LaunchRow* launch = traced_launch(data, cell.cell.id); // unfinished: its file has the error
  if (launch == nullptr)
    return {"",
            comparison.no_explanation.empty()
                ? fmt::format("No traced launch of {} is in these results: set [trace] rounds = 10 "
                              "in the matrix and run it into a new directory",
                              cell.cell.name)
                : comparison.no_explanation};
  const std::string path =
      directory + "/" + trace_file_name(launch->id, 0, side == 0 ? comparison.a : comparison.b);
  std::error_code none;
  const std::string part =
      path + trace_schema::kUnfinishedSuffix; // left by a killed worker; its error explains it
  if (!std::filesystem::exists(path, none) && std::filesystem::exists(part, none))
    return {part, ""};
  return {path, ""};
}

} // namespace assay
