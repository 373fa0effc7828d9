#include "ui/model/kernel_model.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/text.h"
#include "ui/model/workspace.h"

namespace assay {
namespace {

using nlohmann::ordered_json;

bool holds(const std::string& text, const std::string& wanted) {
  return std::search(text.begin(), text.end(), wanted.begin(), wanted.end(), [](char a, char b) {
           return std::tolower(static_cast<unsigned char>(a)) ==
                  std::tolower(static_cast<unsigned char>(b));
         }) != text.end();
}

// Every word must be in the name, the class, the stage or the status.
bool matches(const DiffRow& row, const std::string& filter) {
  std::size_t from = 0;
  while (from < filter.size()) {
    const std::size_t space = std::min(filter.find(' ', from), filter.size());
    const std::string word = filter.substr(from, space - from);
    const bool found = word.empty() || holds(row.name, word) || holds(row.kernel_class, word) ||
                       holds(std::string(to_string(row.stage)), word) ||
                       holds(std::string(to_string(row.status)), word);
    if (!found) return false;
    from = space + 1;
  }
  return true;
}

bool comes_first(const DiffRow& a, const DiffRow& b, KernelSort sort) {
  switch (sort) {
  case KernelSort::Difference:
    return std::abs(a.delta_ns) < std::abs(b.delta_ns);
  case KernelSort::Name:
    return a.short_name < b.short_name;
  case KernelSort::Class:
    return a.kernel_class < b.kernel_class;
  case KernelSort::Stage:
    return a.stage < b.stage;
  case KernelSort::CallsA:
    return a.calls_a < b.calls_a;
  case KernelSort::CallsB:
    return a.calls_b < b.calls_b;
  case KernelSort::TimeA:
    return a.a_ns < b.a_ns;
  case KernelSort::TimeB:
    return a.b_ns < b.b_ns;
  case KernelSort::Status:
    return a.status < b.status;
  }
  return false;
}

void sort_rows(KernelModel& model, const KernelState& state) {
  std::stable_sort(
      model.rows.begin(), model.rows.end(), [&](const KernelRowModel& a, const KernelRowModel& b) {
        return state.descending ? comes_first(*b.row, *a.row, state.sort)
                                : comes_first(*a.row, *b.row, state.sort);
      });
  double largest = 0;
  for (const KernelRowModel& row : model.rows) {
    largest = std::max({largest, row.row->a_ns, row.row->b_ns});
    model.delta_ns += row.row->delta_ns;
  }
  model.unit = time_unit(largest);
}

Notice nothing_matches(const Workspace& workspace) {
  std::string what = "No row";
  if (!workspace.kernels.filter.empty())
    what += fmt::format(" matches '{}'", printable(workspace.kernels.filter));
  if (workspace.stage) what += fmt::format(" in stage {}", to_string(*workspace.stage));
  return {what,
          "The comparison has rows, but the filters hide all of them.",
          "Backspace clears the filters"};
}

} // namespace

KernelModel kernel_model(const Workspace& workspace) {
  KernelModel model;
  const Comparison* comparison = workspace.comparison();
  const Explanation* explanation = workspace.explanation();
  if (comparison == nullptr && explanation == nullptr) return model;
  model.a = comparison != nullptr ? comparison->a : workspace.traces[0].variant; // two trace files
  model.b = comparison != nullptr ? comparison->b : workspace.traces[1].variant;
  if (explanation == nullptr) {
    const bool reading = !workspace.results->explained;
    model.notice = Notice{reading ? "Reading the traces" : "There is no kernel table",
                          reading ? "The verdict is there; its explanation follows."
                                  : printable(comparison->no_explanation),
                          ""};
    return model;
  }
  model.has_kernels = !explanation->kernels.empty();
  model.has_operators = !explanation->operators.empty();
  const bool operators = workspace.kernels.operators || !model.has_kernels;
  const std::vector<DiffRow>& rows = operators ? explanation->operators : explanation->kernels;
  model.title = operators ? "operators by self time" : "kernels by device time";
  model.warning = printable(explanation->waterfall.unusable);
  model.all = rows.size();
  for (const DiffRow& row : rows) {
    if (workspace.stage && row.stage != *workspace.stage) continue;
    if (!matches(row, workspace.kernels.filter)) continue;
    const double a_step = explanation->waterfall.a_ns;
    const double share = a_step > 0 ? std::abs(row.delta_ns) / a_step : 0;
    model.rows.push_back({&row, share, share >= workspace.kernels.least_share});
  }
  sort_rows(model, workspace.kernels);
  if (rows.empty())
    model.notice = Notice{
        "The traces contain neither kernels nor operators",
        "They were recorded with spans only. `assay doctor` shows what this machine can trace.",
        ""};
  else if (model.rows.empty())
    model.notice = nothing_matches(workspace);
  return model;
}

std::vector<std::string> kernel_columns(const KernelModel& model) {
  const std::string unit = std::string(" [") + model.unit.word + "]";
  return {"name",
          "class",
          "stage",
          "status",
          "calls, baseline",
          "calls, candidate",
          "baseline" + unit,
          "candidate" + unit,
          "difference" + unit,
          "95 % interval",
          "% of baseline"};
}

std::vector<std::string> kernel_cells(const KernelModel& model, const KernelRowModel& row) {
  const DiffRow& diff = *row.row;
  const bool only_b = diff.status == DiffStatus::Added, only_a = diff.status == DiffStatus::Removed;
  return {printable(diff.short_name.empty() ? diff.name : diff.short_name),
          diff.kernel_class,
          std::string(to_string(diff.stage)),
          std::string(to_string(diff.status)),
          only_b ? "-" : fmt::format("{:.4g}", diff.calls_a),
          only_a ? "-" : fmt::format("{:.4g}", diff.calls_b),
          only_b ? "-" : in_unit(diff.a_ns, model.unit),
          only_a ? "-" : in_unit(diff.b_ns, model.unit),
          signed_in_unit(diff.delta_ns, model.unit),
          diff.interval ? fmt::format("[{}, {}]",
                                      in_unit(diff.interval->lower, model.unit),
                                      in_unit(diff.interval->upper, model.unit))
                        : "-",
          fmt::format("{:.2f}", 100 * row.share)};
}

ordered_json to_json(const KernelModel& model) {
  ordered_json rows = ordered_json::array();
  for (const KernelRowModel& row : model.rows)
    rows.push_back({{"name", printable(row.row->name)},
                    {"short_name", printable(row.row->short_name)},
                    {"class", row.row->kernel_class},
                    {"stage", to_string(row.row->stage)},
                    {"status", to_string(row.row->status)},
                    {"baseline_ns", row.row->a_ns},
                    {"candidate_ns", row.row->b_ns},
                    {"delta_ns", row.row->delta_ns},
                    {"matters", row.matters}});
  ordered_json all{{"title", model.title},
                   {"baseline", model.a},
                   {"candidate", model.b},
                   {"rows", rows},
                   {"all", model.all},
                   {"delta_ns", model.delta_ns},
                   {"warning", model.warning}};
  all["notice"] = model.notice ? ordered_json(model.notice->title) : ordered_json(nullptr);
  return all;
}

} // namespace assay
