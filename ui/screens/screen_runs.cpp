// Runs: the plan's comparisons with their verdicts, and every launch behind them.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "imgui.h"
#include "ui/model/results/model_json.h"
#include "ui/model/results/runs_model.h"
#include "ui/screens/screens.h"
#include "ui/screens/verdict_table.h"
#include "ui/style/input.h"
#include "ui/style/widgets.h"

namespace assay {
namespace {

// One line an alarm; more than a few scroll, so that the verdicts stay in sight.
void draw_alarms(const std::vector<std::string>& alarms, const Palette& colors) {
  constexpr std::size_t kVisible = 4;
  if (alarms.empty()) return;
  const float lines = static_cast<float>(std::min(alarms.size(), kVisible)) + 0.4F;
  if (ImGui::BeginChild("alarms", ImVec2(0, lines * ImGui::GetTextLineHeightWithSpacing())))
    for (const std::string& line : alarms)
      text_cut(colors.warning, "! " + line.substr(0, line.find('\n')));
  ImGui::EndChild();
}

void draw_header(const VerdictModel& model, const Palette& colors) {
  ImGui::PushFont(nullptr, ImGui::GetStyle().FontSizeBase * 1.5F);
  text(colors.text, model.name.empty() ? "Assay" : model.name);
  ImGui::PopFont();
  for (const std::string& line : model.provenance) text_wrapped(colors.muted, line);
  draw_alarms(model.alarms, colors);
  ImGui::Separator();
}

void draw_mark(Workspace& workspace, const LaunchMark& mark, const Palette& colors) {
  ImGui::PushID(static_cast<int>(mark.launch));
  const bool selected = workspace.launch == mark.launch;
  mark_target(workspace, fmt::format("runs.launch.{}", mark.launch));
  const std::string words = mark.glyph + " " + mark.label;
  if (selected) {
    const ImVec2 corner = ImGui::GetCursorScreenPos();
    const ImVec2 size = ImGui::CalcTextSize(words.c_str());
    ImGui::GetWindowDrawList()->AddRectFilled(
        corner, ImVec2(corner.x + size.x, corner.y + size.y), to_u32(colors.selected));
  }
  if (link(mark.tone == Tone::Good ? colors.text : colors.tone(mark.tone), words))
    workspace.launch = mark.launch;
  ImGui::PopID();
}

void draw_launches(Workspace& workspace, const Palette& colors) {
  const float em = ImGui::GetFontSize();
  text(colors.accent, "Launches");
  ImGui::SameLine(0, em);
  text(colors.muted, "● complete  ◐ partial  ○ running  ✕ failed  – measured again");
  for (const LaunchGridRow& row : launch_grid(*workspace.results)) {
    text(colors.text, row.cell);
    const float right = ImGui::GetCursorScreenPos().x + ImGui::GetContentRegionAvail().x;
    ImGui::Indent(em);
    bool first = true;
    for (const LaunchMark& mark : row.marks) {
      const float width = ImGui::CalcTextSize((mark.glyph + " " + mark.label).c_str()).x;
      if (!first) ImGui::SameLine(0, 0.9F * em);
      if (!first && ImGui::GetCursorScreenPos().x + width > right) ImGui::NewLine();
      first = false;
      draw_mark(workspace, mark, colors);
    }
    if (row.marks.empty()) text(colors.muted, "no launch yet");
    if (!row.owed.empty()) text_wrapped(colors.muted, "still missing: " + row.owed);
    ImGui::Unindent(em);
  }
}

void draw_card(const Workspace& workspace, const Palette& colors) {
  const float left = ImGui::GetCursorPosX();
  for (const DetailLine& line : launch_card(*workspace.results, workspace.launch)) {
    text(colors.muted, line.label);
    ImGui::SameLine();
    ImGui::SetCursorPosX(left + 8 * ImGui::GetFontSize());
    text_wrapped(line.tone == Tone::Bad ? colors.bad : colors.text, line.text);
  }
}

// The table takes what its rows need, at most 60 % of the space; the launches get the rest.
float table_height(std::size_t rows, float available) {
  const float row = ImGui::GetFontSize() * 3.2F;
  return std::min(available * 0.6F, row * static_cast<float>(rows) + 2.5F * ImGui::GetFontSize());
}

} // namespace

nlohmann::ordered_json runs_model(const Workspace& workspace) {
  nlohmann::ordered_json all = to_json(workspace.results->verdicts);
  nlohmann::ordered_json grid = nlohmann::ordered_json::array();
  for (const LaunchGridRow& row : launch_grid(*workspace.results)) {
    nlohmann::ordered_json marks = nlohmann::ordered_json::array();
    for (const LaunchMark& mark : row.marks)
      marks.push_back({{"label", mark.label}, {"state", mark.state}});
    grid.push_back({{"cell", row.cell}, {"launches", marks}, {"owed", row.owed}});
  }
  all["launches"] = std::move(grid);
  nlohmann::ordered_json card = nlohmann::ordered_json::array();
  for (const DetailLine& line : launch_card(*workspace.results, workspace.launch))
    card.push_back({{"label", line.label}, {"text", line.text}});
  all["card"] = std::move(card);
  return all;
}

TextTable runs_table(const Workspace& workspace) {
  TextTable table{
      {"cell", "comparison", "effect, interval", "MDE", "memory", "verdict", "in words"}};
  for (const VerdictRowModel& row : workspace.results->verdicts.rows)
    table.push_back(
        {row.cell, row.comparison, row.effect, row.mde, row.memory, row.badge, row.headline});
  return table;
}

void draw_runs(Workspace& workspace) {
  const Palette& colors = palette(workspace.theme);
  const VerdictModel& model = workspace.results->verdicts;
  draw_header(model, colors);
  interval_legend(colors);
  const float available = ImGui::GetContentRegionAvail().y;
  if (ImGui::BeginChild("table", ImVec2(0, table_height(model.rows.size(), available))))
    draw_verdict_table(workspace);
  ImGui::EndChild();
  ImGui::Separator();
  const float width = ImGui::GetContentRegionAvail().x;
  if (ImGui::BeginChild("launches", ImVec2(width * 0.56F, 0))) draw_launches(workspace, colors);
  ImGui::EndChild();
  ImGui::SameLine();
  if (ImGui::BeginChild("card", ImVec2(0, 0))) draw_card(workspace, colors);
  ImGui::EndChild();
}

} // namespace assay
