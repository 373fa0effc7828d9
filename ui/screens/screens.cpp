#include "ui/screens/screens.h"

#include <nlohmann/json.hpp>

#include "core/files/csv_text.h"
#include "core/files/markdown_text.h"
#include "core/files/shell_text.h"
#include "core/text.h"
#include "ui/model/kernel_model.h"
#include "ui/model/results/compare_model.h"
#include "ui/model/side.h"
#include "ui/model/telemetry/telemetry_model.h"
#include "ui/model/timeline_model.h"

namespace assay {
namespace {

using nlohmann::ordered_json;

ordered_json compare_json(const Workspace& workspace) {
  if (workspace.comparison() == nullptr) return nullptr;
  ordered_json model = to_json(compare_model(*workspace.results, workspace.row));
  model["pane"] = to_string(shown_pane(workspace));
  model["speed"] =
      workspace.speed() == nullptr ? ordered_json(nullptr) : to_json(*workspace.speed());
  model["loss"] = workspace.loss() == nullptr ? ordered_json(nullptr) : to_json(*workspace.loss());
  model["memory"] =
      workspace.memory() == nullptr ? ordered_json(nullptr) : to_json(*workspace.memory());
  return model;
}

ordered_json timeline_json(const Workspace& workspace) {
  ordered_json model = to_json(timeline_model(workspace));
  model["gaps"] = gaps_json(workspace);
  return model;
}

ordered_json kernels_json(const Workspace& workspace) {
  return to_json(kernel_model(workspace));
}

ordered_json telemetry_json(const Workspace& workspace) {
  return to_json(telemetry_model(workspace));
}

TextTable timeline_table(const Workspace& workspace) {
  TextTable table{{"side"}};
  table[0].insert(table[0].end(), std::begin(kGapColumns), std::end(kGapColumns));
  for (const IdleGap& gap : workspace.gaps) {
    std::vector<std::string> row = gap_cells(workspace, gap);
    row.insert(row.begin(), side_word(gap.side));
    table.push_back(std::move(row));
  }
  return table;
}

bool needs_results(const Workspace& workspace) {
  if (workspace.screen == ScreenId::Start) return false;
  if (workspace.single_trace && workspace.screen == ScreenId::Kernels)
    return workspace.explanation() == nullptr;
  return !workspace.single_trace ||
         (workspace.screen != ScreenId::Timeline && workspace.screen != ScreenId::Telemetry);
}

} // namespace

const std::vector<Screen>& screens() {
  static const std::vector<Screen> table{
      {ScreenId::Start,
       "start",
       "Start",
       "H",
       start_model,
       draw_start,
       nullptr,
       "Opens a results directory or a single trace file: type its path, drop it on the window, or "
       "choose a recent one."},
      {ScreenId::Runs,
       "runs",
       "Runs",
       "1",
       runs_model,
       draw_runs,
       runs_table,
       "One row per comparison with its verdict; below, the sections of the report, at first every "
       "launch with its state. C shows the next section, Enter opens the selected comparison."},
      {ScreenId::Compare,
       "compare",
       "Compare",
       "2",
       compare_json,
       draw_compare,
       compare_table,
       "The verdict of one comparison, its effects with intervals, and the waterfall: the "
       "difference by stage of the step. A click on a stage shows it in both traces; Enter lists "
       "its kernels. C changes the right side to speed, to training losses or to the memory over a "
       "step, if the results contain them."},
      {ScreenId::Timeline,
       "timeline",
       "Timeline",
       "3",
       timeline_json,
       draw_timeline,
       timeline_table,
       "The traced steps of baseline and candidate on one ruler. Ctrl + wheel zooms at the "
       "pointer, W A S D and "
       "the arrows too; drag with the right button to pan, with the left to measure, with the "
       "middle to zoom into a range. A click selects an event and highlights its partner in the "
       "other "
       "trace. Below: the longest times in which a GPU was idle inside a step; a click, I and "
       "Shift I go there."},
      {ScreenId::Kernels,
       "kernels",
       "Kernels",
       "4",
       kernels_json,
       draw_kernels,
       kernels_table,
       "What was added, removed, faster or slower, per step, with intervals over pairs of traced "
       "steps. Enter shows the row in the timeline, n and N its next and previous call."},
      {ScreenId::Telemetry,
       "telemetry",
       "Telemetry",
       "5",
       telemetry_json,
       draw_telemetry,
       telemetry_table,
       "Clocks, power, memory and processors beside the traced steps. Bands are the least and the "
       "greatest sample of a pixel column; a gap in the samples stays a gap."},
  };
  return table;
}

const Screen& current_screen(const Workspace& workspace) {
  return screens()[static_cast<std::size_t>(workspace.screen)];
}

std::optional<ScreenId> find_screen(std::string_view id) {
  for (const Screen& screen : screens())
    if (screen.id == id) return screen.screen;
  return std::nullopt;
}

std::optional<Blocked> blocked(const Workspace& workspace) {
  if (!needs_results(workspace)) return std::nullopt;
  if (workspace.path.empty())
    return Blocked{{"Nothing is open",
                    "Open a results directory of `assay run`, or make one with every feature in a "
                    "few seconds:",
                    "assay demo demo && assay-view demo"},
                   false};
  if (workspace.single_trace)
    for (const TraceSlot& slot : workspace.traces)
      if (!slot.why_none.empty()) return Blocked{unreadable(printable(slot.why_none)), true};
  if (workspace.single_trace && !workspace.other_path.empty())
    return Blocked{
        {workspace.screen == ScreenId::Kernels ? "Reading the traces" : "These are two traces",
         "They have a timeline, kernels side by side and telemetry. One trace a side "
         "gives no verdict: that needs runs in turns, from `assay run`.",
         fmt::format("assay explain {} {}",
                     shell_word(printable(workspace.path)),
                     shell_word(printable(workspace.other_path)))},
        false};
  if (workspace.single_trace)
    return Blocked{{"This is a single trace",
                    "It has a timeline and telemetry; verdicts and comparisons need the results "
                    "directory that contains it.",
                    "assay-view DIR"},
                   false};
  if (!workspace.open_error.empty())
    return Blocked{unreadable(printable(workspace.open_error)), true};
  if (!workspace.results)
    return Blocked{{"Reading " + printable(workspace.path), "Verdicts appear first.", ""}, false};
  if (workspace.results->verdicts.notice)
    return Blocked{*workspace.results->verdicts.notice, workspace.results->verdicts.failed};
  return std::nullopt;
}

ordered_json window_model(const Workspace& workspace) {
  ordered_json all{{"screen", id_of(workspace.screen)},
                   {"path", printable(workspace.path)},
                   {"loading", workspace.loading},
                   {"explained", workspace.results && workspace.results->explained},
                   {"row", workspace.row},
                   {"stage", workspace.stage ? std::string(to_string(*workspace.stage)) : ""},
                   {"theme", workspace.theme == ThemeKind::Dark ? "dark" : "light"},
                   {"scale", workspace.scale},
                   {"help", workspace.help},
                   {"palette", workspace.palette.open},
                   {"status", printable(workspace.status)}};
  if (const auto block = blocked(workspace)) {
    all["notice"] = {{"title", block->notice.title},
                     {"explanation", block->notice.explanation},
                     {"action", block->notice.action},
                     {"failed", block->failed}};
    all["model"] = nullptr;
  } else {
    all["notice"] = nullptr;
    all["model"] = current_screen(workspace).model(workspace);
  }
  return all;
}

std::string dump_model(const Workspace& workspace) {
  return window_model(workspace).dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string markdown(const TextTable& table) {
  std::string out;
  for (std::size_t i = 0; i < table.size(); ++i) {
    out += "|";
    for (const std::string& cell : table[i]) out += " " + markdown_cell(cell) + " |";
    out += "\n";
    if (i > 0) continue;
    out += "|";
    for (std::size_t column = 0; column < table[i].size(); ++column) out += "---|";
    out += "\n";
  }
  return out;
}

std::string csv(const TextTable& table) {
  std::string out;
  for (const std::vector<std::string>& row : table) {
    for (std::size_t i = 0; i < row.size(); ++i) out += (i > 0 ? "," : "") + csv_field(row[i]);
    out += "\n";
  }
  return out;
}

} // namespace assay
