#include "ui/screens/verdict_table.h"

#include <algorithm>

#include "imgui.h"
#include "imgui_internal.h" // TableGetHoveredRow
#include "ui/model/workspace.h"
#include "ui/style/input.h"
#include "ui/style/widgets.h"

namespace assay {
namespace {

enum Column { kCell, kComparison, kEffect, kBar, kMde, kMemory, kVerdict, kWords, kColumns };

float bar_width() {
  const float em = ImGui::GetFontSize();
  return std::clamp(ImGui::GetIO().DisplaySize.x * 0.2F, 9 * em, 24 * em);
}

void draw_header(const Workspace& workspace) {
  const ImGuiTableColumnFlags fixed = ImGuiTableColumnFlags_WidthFixed;
  ImGui::TableSetupScrollFreeze(0, 1);
  for (const char* name : {"cell", "baseline -> candidate"}) ImGui::TableSetupColumn(name, fixed);
  const std::string effect =
      fmt::format("effect, {} interval", workspace.verdicts()->interval_level);
  ImGui::TableSetupColumn(effect.c_str(), fixed);
  ImGui::TableSetupColumn("##axis", fixed, bar_width());
  for (const char* name : {"MDE", "memory", "verdict"}) ImGui::TableSetupColumn(name, fixed);
  ImGui::TableSetupColumn("in words", ImGuiTableColumnFlags_WidthStretch);
  ImGui::TableHeadersRow();
  ImGui::TableSetColumnIndex(kBar);
  axis_labels(palette(workspace.theme), workspace.verdicts()->axis, bar_width());
}

void cell(Column column, Color color, const std::string& words) {
  ImGui::TableSetColumnIndex(column);
  ImGui::AlignTextToFramePadding(); // on the height of badge and bar
  text(color, words);
}

void draw_row(Workspace& workspace, std::size_t index) {
  const Palette& colors = palette(workspace.theme);
  const VerdictRowModel& row = workspace.verdicts()->rows[index];
  ImGui::TableNextRow();
  const bool selected = index == workspace.row;
  if (selected) ImGui::TableSetBgColor(ImGuiTableBgTarget_RowBg1, to_u32(colors.selected));
  ImGui::TableSetColumnIndex(kCell);
  mark_target(workspace, fmt::format("runs.row.{}", index));
  cell(kCell, colors.text, row.cell);
  cell(kComparison, colors.text, row.comparison);
  cell(kEffect, colors.text, row.effect);
  ImGui::TableSetColumnIndex(kBar);
  if (row.interval)
    interval_bar(colors,
                 *row.interval,
                 workspace.verdicts()->axis,
                 ImVec2(bar_width(), ImGui::GetFrameHeight()));
  cell(kMde, colors.muted, row.mde);
  cell(kMemory, colors.text, row.memory);
  ImGui::TableSetColumnIndex(kVerdict);
  badge(colors, row.tone, row.badge);
  ImGui::TableSetColumnIndex(kWords);
  ImGui::AlignTextToFramePadding();
  text_wrapped(colors.text, row.headline);
  // Row 0 is the header. A Selectable would need the row's height before its last column is known.
  const bool hovered =
      ImGui::IsWindowHovered() && ImGui::TableGetHoveredRow() == static_cast<int>(index) + 1;
  if (hovered && ImGui::IsMouseClicked(ImGuiMouseButton_Left)) select_comparison(workspace, index);
  if (hovered && ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left))
    go_to(workspace, ScreenId::Compare);
  if (selected && workspace.scroll_to_selected) ImGui::SetScrollHereY(0.5F);
}

} // namespace

void draw_verdict_table(Workspace& workspace) {
  const ImGuiTableFlags flags = ImGuiTableFlags_ScrollY | ImGuiTableFlags_ScrollX |
                                ImGuiTableFlags_BordersInnerH | ImGuiTableFlags_RowBg |
                                ImGuiTableFlags_SizingFixedFit | ImGuiTableFlags_PadOuterX;
  const ImVec2 size = ImGui::GetContentRegionAvail();
  const float least = 62 * ImGui::GetFontSize() + bar_width(); // narrower windows scroll sideways
  const float inner = std::max(least, size.x - ImGui::GetStyle().ScrollbarSize);
  if (!ImGui::BeginTable("verdicts", kColumns, flags, size, inner)) return;
  draw_header(workspace);
  for (std::size_t index = 0; index < workspace.verdicts()->rows.size(); ++index)
    draw_row(workspace, index);
  workspace.scroll_to_selected = false;
  ImGui::EndTable();
}

} // namespace assay
