#include "ui/verdict_table.h"

#include "imgui.h"
#include "imgui_internal.h" // TableGetHoveredRow
#include "ui/widgets.h"
#include "ui/workspace.h"

namespace assay {
namespace {

enum Column { kOptimization, kComparison, kEffect, kBar, kMde, kMemory, kVerdict, kColumns };

void set_up_columns(const VerdictModel& model) {
  const float em = ImGui::GetFontSize();
  const ImGuiTableColumnFlags fixed = ImGuiTableColumnFlags_WidthFixed;
  ImGui::TableSetupScrollFreeze(0, 1);
  ImGui::TableSetupColumn("optimization", fixed);
  ImGui::TableSetupColumn("comparison", fixed);
  ImGui::TableSetupColumn("effect, 95 % interval", fixed);
  ImGui::TableSetupColumn(fmt::format("-{0:.3g} %  …  +{0:.3g} %###axis", model.axis).c_str(), fixed, 15 * em);
  ImGui::TableSetupColumn("MDE", fixed);
  ImGui::TableSetupColumn("memory", fixed);
  ImGui::TableSetupColumn("verdict", ImGuiTableColumnFlags_WidthStretch);
  ImGui::TableHeadersRow();
}

void draw_verdict(const Palette& colors, const VerdictRowModel& row) {
  badge(colors, row.tone, row.badge);
  text_wrapped(colors.text, row.headline);
}

void draw_row(Workspace& workspace, std::size_t index) {
  const Palette& colors = palette(workspace.theme);
  const VerdictRowModel& row = workspace.model.rows[index];
  ImGui::TableNextRow();
  ImGui::TableSetColumnIndex(kOptimization);
  const bool selected = index == workspace.selected;
  if (selected) ImGui::TableSetBgColor(ImGuiTableBgTarget_RowBg1, to_u32(colors.selected));
  text(colors.text, row.optimization);
  ImGui::TableSetColumnIndex(kComparison);
  text(colors.text, row.comparison);
  ImGui::TableSetColumnIndex(kEffect);
  text(colors.text, row.effect);
  ImGui::TableSetColumnIndex(kBar);
  if (row.interval) {
    const float em = ImGui::GetFontSize();
    interval_bar(colors, *row.interval, workspace.model.axis, ImVec2(15 * em, 1.7F * em));
  }
  ImGui::TableSetColumnIndex(kMde);
  text(colors.muted, row.mde);
  ImGui::TableSetColumnIndex(kMemory);
  text(colors.text, row.memory);
  ImGui::TableSetColumnIndex(kVerdict);
  draw_verdict(colors, row);
  // Row 0 is the header. A Selectable would need the row's height before its last column is known.
  const bool hovered = ImGui::IsWindowHovered() && ImGui::TableGetHoveredRow() == static_cast<int>(index) + 1;
  if (hovered && ImGui::IsMouseClicked(ImGuiMouseButton_Left))
    workspace.selected = index;
  if (selected && workspace.scroll_to_selected) ImGui::SetScrollHereY(0.5F);
}

} // namespace

void draw_verdict_table(Workspace& workspace) {
  const ImGuiTableFlags flags = ImGuiTableFlags_ScrollY | ImGuiTableFlags_ScrollX | ImGuiTableFlags_BordersInnerH |
                                ImGuiTableFlags_RowBg | ImGuiTableFlags_SizingFixedFit;
  if (!ImGui::BeginTable("verdicts", kColumns, flags, ImGui::GetContentRegionAvail())) return;
  set_up_columns(workspace.model);
  for (std::size_t index = 0; index < workspace.model.rows.size(); ++index) draw_row(workspace, index);
  workspace.scroll_to_selected = false;
  ImGui::EndTable();
}

} // namespace assay
