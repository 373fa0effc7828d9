#include "ui/timeline/gap_list.h"

#include <algorithm>

#include "imgui.h"
#include "ui/model/gaps.h"
#include "ui/model/workspace.h"
#include "ui/style/input.h"
#include "ui/style/widgets.h"

namespace assay {
namespace {

constexpr float kMostLines = 5, kFewestLines = 4; // of the table: words, header, rows
constexpr float kFixed[] = {6, 6.5F, 8};          // em, of the first columns; names share the rest
constexpr int kGapColumnCount = static_cast<int>(std::size(kGapColumns));

float line_height() {
  return ImGui::GetTextLineHeightWithSpacing();
}

void draw_row(Workspace& workspace, std::size_t index, const Palette& colors) {
  const IdleGap& gap = workspace.gaps[index];
  const std::vector<std::string> cells = gap_cells(workspace, gap);
  ImGui::TableNextRow();
  ImGui::TableSetColumnIndex(0);
  mark_target(workspace, fmt::format("gap.{}", index));
  ImGui::PushID(static_cast<int>(index));
  const bool selected = workspace.timeline.gap == index;
  if (ImGui::Selectable("##gap", selected, ImGuiSelectableFlags_SpanAllColumns))
    show_gap(workspace, index);
  ImGui::PopID();
  if (selected && workspace.timeline.scroll_to_gap) {
    ImGui::SetScrollHereY(0.5F);
    workspace.timeline.scroll_to_gap = false;
  }
  ImGui::SameLine(0, 0);
  side_mark(colors, gap.side);
  text(colors.text, cells[0]);
  for (int i = 1; i < kGapColumnCount; ++i) {
    ImGui::TableSetColumnIndex(i);
    text_cut(i >= 3 ? colors.text : colors.muted, cells[static_cast<std::size_t>(i)]);
  }
}

void draw_rows(Workspace& workspace, float height, const Palette& colors) {
  const ImGuiTableFlags flags =
      ImGuiTableFlags_ScrollY | ImGuiTableFlags_SizingFixedFit | ImGuiTableFlags_PadOuterX;
  ImGui::PushStyleVar(ImGuiStyleVar_CellPadding, ImVec2(ImGui::GetStyle().CellPadding.x, 1));
  if (ImGui::BeginTable("gaps", kGapColumnCount, flags, ImVec2(0, height))) {
    ImGui::TableSetupScrollFreeze(0, 1);
    for (int i = 0; i < kGapColumnCount; ++i) {
      const bool fixed = i < static_cast<int>(std::size(kFixed));
      ImGui::TableSetupColumn(kGapColumns[i],
                              fixed ? ImGuiTableColumnFlags_WidthFixed
                                    : ImGuiTableColumnFlags_WidthStretch,
                              fixed ? kFixed[i] * ImGui::GetFontSize() : 1);
    }
    ImGui::TableHeadersRow();
    ImGuiListClipper clipper;
    clipper.Begin(static_cast<int>(workspace.gaps.size()));
    if (workspace.timeline.gap)
      clipper.IncludeItemByIndex(static_cast<int>(*workspace.timeline.gap));
    while (clipper.Step())
      for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i)
        draw_row(workspace, static_cast<std::size_t>(i), colors);
    ImGui::EndTable();
  }
  ImGui::PopStyleVar();
}

} // namespace

float gap_list_height(const Workspace& workspace, float spare) {
  if (!workspace.timeline.gap_list) return 0;
  if (workspace.gaps.empty()) return 0;
  const float wanted = std::min(kMostLines, 2 + static_cast<float>(workspace.gaps.size()));
  const float lines = std::min(wanted, spare / line_height());
  return lines < std::min(wanted, kFewestLines) ? 0 : lines * line_height();
}

void draw_gap_list(Workspace& workspace, float height) {
  const Palette& colors = palette(workspace.theme);
  const bool failed =
      !workspace.traces[0].why_no_gaps.empty() || !workspace.traces[1].why_no_gaps.empty();
  if (workspace.gaps.empty()) {
    text_cut(failed ? colors.warning : colors.muted, gap_words(workspace));
    return;
  }
  const std::optional<std::size_t> shown = workspace.timeline.gap;
  if (failed)
    text_cut(colors.warning, gap_words(workspace));
  else if (height == 0 && shown)
    text_cut(colors.accent, one_gap_words(workspace, *shown));
  else
    text_cut(colors.accent,
             gap_words(workspace) + " · I shows the next" + (height == 0 ? " · U lists them" : ""));
  const float left = height - line_height();
  if (left > line_height()) draw_rows(workspace, left, colors);
}

} // namespace assay
