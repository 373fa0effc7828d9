// Runs: the plan's comparisons with their verdicts, every launch behind them, and the report's
// sections of the whole run.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "imgui.h"
#include "ui/model/results/model_json.h"
#include "ui/model/results/runs_model.h"
#include "ui/screens/screens.h"
#include "ui/screens/section_table.h"
#include "ui/screens/verdict_table.h"
#include "ui/style/input.h"
#include "ui/style/widgets.h"

namespace assay {
namespace {

// One line an alarm; more than a few are counted, so that the verdicts stay in sight.
void draw_alarms(Workspace& workspace, const Palette& colors) {
  constexpr std::size_t kVisible = 3;
  const std::vector<std::string>& alarms = workspace.results->verdicts.alarms;
  const std::size_t shown = alarms.size() <= kVisible ? alarms.size() : kVisible - 1;
  for (std::size_t i = 0; i < shown; ++i)
    text_cut(colors.warning, "! " + alarms[i].substr(0, alarms[i].find('\n')));
  if (shown == alarms.size()) return;
  mark_target(workspace, "runs.alarms");
  if (link(colors.warning, fmt::format("! {} more alarms", alarms.size() - shown)))
    workspace.section = "alarms";
}

void draw_header(Workspace& workspace, const Palette& colors) {
  const VerdictModel& model = workspace.results->verdicts;
  ImGui::PushFont(nullptr, ImGui::GetStyle().FontSizeBase * 1.5F);
  text(colors.text, model.name.empty() ? "Assay" : model.name);
  ImGui::PopFont();
  text_wrapped(colors.muted, model.summary);
  text_cut(colors.muted, model.provenance); // whole in the section "Run"
  draw_alarms(workspace, colors);
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
  text_cut(colors.muted, "● complete  ◐ partial  ○ running  ✕ failed  – measured again");
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
    ImGui::SetCursorPosX(left + 7 * ImGui::GetFontSize());
    text_wrapped(line.tone == Tone::Bad ? colors.bad : colors.text, line.text);
  }
}

// The names of the report's sections; a click shows one beside them.
void draw_section_names(Workspace& workspace, std::size_t shown, const Palette& colors) {
  const std::vector<Section>& sections = workspace.results->sections;
  for (std::size_t i = 0; i < sections.size(); ++i) {
    mark_target(workspace, "runs.section." + sections[i].id);
    const std::string name = section_name(sections[i]);
    if (i == shown)
      text_cut(colors.accent, name);
    else if (link(colors.muted, name))
      workspace.section = sections[i].id;
  }
}

void draw_launches_and_card(Workspace& workspace, const Palette& colors) {
  const float width = ImGui::GetContentRegionAvail().x;
  if (ImGui::BeginChild("launches", ImVec2(width * 0.56F, 0))) draw_launches(workspace, colors);
  ImGui::EndChild();
  ImGui::SameLine();
  if (ImGui::BeginChild("card", ImVec2(0, 0))) draw_card(workspace, colors);
  ImGui::EndChild();
}

// Below the table: one section of the report, at first the launches.
void draw_sections(Workspace& workspace, const Palette& colors) {
  const std::vector<Section>& sections = workspace.results->sections;
  const std::size_t shown = find_section(*workspace.results, workspace.section);
  float names = 0;
  for (const Section& section : sections)
    names = std::max(names, ImGui::CalcTextSize(section_name(section).c_str()).x);
  const float em = ImGui::GetFontSize();
  names = std::min({names + 2 * em, 14 * em, ImGui::GetContentRegionAvail().x * 0.25F});
  if (ImGui::BeginChild("names", ImVec2(names, 0))) draw_section_names(workspace, shown, colors);
  ImGui::EndChild();
  ImGui::SameLine();
  // A window of its own for each section: its place while scrolling is kept.
  if (ImGui::BeginChild(sections[shown].id.c_str(), ImVec2(0, 0))) {
    if (sections[shown].id == kLaunches) {
      draw_launches_and_card(workspace, colors);
    } else {
      scroll_by_keys(workspace);
      draw_titled(sections[shown], colors);
    }
  }
  ImGui::EndChild();
}

// The table takes what its rows need, at most half of the space; the section below gets the rest.
float table_height(std::size_t rows, float available) {
  const float row = ImGui::GetFontSize() * 3.2F;
  return std::min(available * 0.5F, row * static_cast<float>(rows) + 2.5F * ImGui::GetFontSize());
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
  const std::vector<Section>& sections = workspace.results->sections;
  all["section"] = sections[find_section(*workspace.results, workspace.section)].id;
  all["sections"] = nlohmann::ordered_json::array();
  for (const Section& section : sections) all["sections"].push_back(to_json(section));
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
  draw_header(workspace, colors);
  interval_legend(colors);
  const float available = ImGui::GetContentRegionAvail().y;
  if (ImGui::BeginChild("table", ImVec2(0, table_height(model.rows.size(), available))))
    draw_verdict_table(workspace);
  ImGui::EndChild();
  ImGui::Separator();
  draw_sections(workspace, colors);
}

} // namespace assay
