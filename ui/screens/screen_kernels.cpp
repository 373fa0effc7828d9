// Kernels: the rows that make the difference, with the filters above them and the selected one
// below.
#include <algorithm>
#include <array>

#include "core/text.h"
#include "imgui.h"
#include "ui/model/kernel_model.h"
#include "ui/screens/screens.h"
#include "ui/style/input.h"
#include "ui/style/trace_colors.h"
#include "ui/style/widgets.h"

namespace assay {
namespace {

constexpr std::array<std::optional<KernelSort>, 11> kColumnSort{KernelSort::Name,
                                                                KernelSort::Class,
                                                                KernelSort::Stage,
                                                                KernelSort::Status,
                                                                KernelSort::CallsA,
                                                                KernelSort::CallsB,
                                                                KernelSort::TimeA,
                                                                KernelSort::TimeB,
                                                                KernelSort::Difference,
                                                                std::nullopt,
                                                                KernelSort::Difference};

Color status_color(DiffStatus status, const Palette& colors) {
  switch (status) {
  case DiffStatus::Faster:
  case DiffStatus::Removed:
    return colors.good;
  case DiffStatus::Slower:
  case DiffStatus::Added:
    return colors.bad;
  case DiffStatus::Same:
  case DiffStatus::Unclear:
    return colors.muted;
  }
  return colors.muted;
}

const char* status_sign(DiffStatus status) {
  switch (status) {
  case DiffStatus::Added:
    return "+ ";
  case DiffStatus::Removed:
    return "− ";
  case DiffStatus::Faster:
    return "▼ ";
  case DiffStatus::Slower:
    return "▲ ";
  case DiffStatus::Same:
    return "= ";
  case DiffStatus::Unclear:
    return "? ";
  }
  return "";
}

void draw_filters(Workspace& workspace, const KernelModel& model, const Palette& colors) {
  const float em = ImGui::GetFontSize();
  KernelState& state = workspace.kernels;
  if (workspace.focus_input) ImGui::SetKeyboardFocusHere();
  workspace.focus_input = false;
  mark_target(workspace, "kernels.filter");
  input_text("##filter", "filter: words of name, class, stage, status", state.filter, 22 * em);
  ImGui::SameLine(0, em);
  if (workspace.stage) {
    if (link(colors.accent, fmt::format("stage {} ✕", to_string(*workspace.stage))))
      workspace.stage.reset();
    ImGui::SameLine(0, em);
  }
  if (model.has_kernels && model.has_operators) {
    if (link(colors.accent, state.operators ? "show kernels" : "show operators"))
      state.operators = !state.operators;
    ImGui::SameLine(0, em);
  }
  text_cut(colors.muted,
           fmt::format("{} of {} rows · candidate - baseline {} per step · sorted by {}",
                       model.rows.size(),
                       model.all,
                       time_text(model.delta_ns),
                       state.sort == KernelSort::Difference ? "size of the difference" : "column"));
}

void draw_header(Workspace& workspace, const KernelModel& model) {
  KernelState& state = workspace.kernels;
  ImGui::TableSetupScrollFreeze(1, 1);
  const std::vector<std::string> columns = kernel_columns(model);
  ImGui::TableSetupColumn(columns[0].c_str(), ImGuiTableColumnFlags_WidthStretch);
  for (std::size_t i = 1; i < columns.size(); ++i)
    ImGui::TableSetupColumn(columns[i].c_str(), ImGuiTableColumnFlags_WidthFixed);
  ImGui::TableNextRow(ImGuiTableRowFlags_Headers);
  for (std::size_t i = 0; i < columns.size(); ++i) {
    ImGui::TableSetColumnIndex(static_cast<int>(i));
    const bool sorted = kColumnSort[i] == state.sort && (i != 10);
    const std::string words = columns[i] + (sorted ? state.descending ? " ▼" : " ▲" : "");
    ImGui::TableHeader(fmt::format("{}###{}", words, i).c_str());
    if (!ImGui::IsItemClicked() || !kColumnSort[i]) continue;
    state.descending = state.sort == *kColumnSort[i] ? !state.descending : true;
    state.sort = *kColumnSort[i];
  }
}

void draw_row(Workspace& workspace,
              const KernelModel& model,
              std::size_t index,
              const Palette& colors) {
  const KernelRowModel& row = model.rows[index];
  const std::vector<std::string> cells = kernel_cells(model, row);
  const Color plain = row.matters ? colors.text : colors.muted;
  ImGui::TableNextRow();
  ImGui::TableSetColumnIndex(0);
  mark_target(workspace, fmt::format("kernels.row.{}", index));
  ImGui::PushID(static_cast<int>(index));
  const bool selected = index == workspace.kernels.row;
  const ImGuiSelectableFlags flags =
      ImGuiSelectableFlags_SpanAllColumns | ImGuiSelectableFlags_AllowDoubleClick;
  ImGui::PushStyleColor(ImGuiCol_Text, to_vec4(plain));
  if (ImGui::Selectable(fmt::format("{}##row", cells[0]).c_str(), selected, flags)) {
    workspace.kernels.row = index;
    if (ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left)) {
      workspace.find_name = row.row->name;
      go_to(workspace, ScreenId::Timeline);
    }
  }
  ImGui::PopStyleColor();
  if (selected && workspace.kernels.scroll_to_row) {
    ImGui::SetScrollHereY(0.5F);
    workspace.kernels.scroll_to_row = false;
  }
  ImGui::PopID();
  for (std::size_t i = 1; i < cells.size(); ++i) {
    ImGui::TableSetColumnIndex(static_cast<int>(i));
    if (i == 3)
      text(status_color(row.row->status, colors), status_sign(row.row->status) + cells[i]);
    else if (i >= 4) { // figures end at the right
      const float room = ImGui::GetContentRegionAvail().x - ImGui::CalcTextSize(cells[i].c_str()).x;
      ImGui::SetCursorPosX(ImGui::GetCursorPosX() + std::max(0.0F, room));
      text(plain, cells[i]);
    } else
      text(plain, cells[i]);
  }
}

void draw_table(Workspace& workspace, const KernelModel& model, float height) {
  const Palette& colors = palette(workspace.theme);
  const ImGuiTableFlags flags = ImGuiTableFlags_ScrollY | ImGuiTableFlags_ScrollX |
                                ImGuiTableFlags_BordersInnerH | ImGuiTableFlags_RowBg |
                                ImGuiTableFlags_SizingFixedFit | ImGuiTableFlags_PadOuterX;
  const float least = 66 * ImGui::GetFontSize(); // narrower windows scroll sideways
  const float inner =
      std::max(least, ImGui::GetContentRegionAvail().x - ImGui::GetStyle().ScrollbarSize);
  if (!ImGui::BeginTable("kernels", 11, flags, ImVec2(0, height), inner)) return;
  draw_header(workspace, model);
  ImGuiListClipper clipper;
  clipper.Begin(static_cast<int>(model.rows.size()));
  clipper.IncludeItemByIndex(static_cast<int>(workspace.kernels.row));
  while (clipper.Step())
    for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i)
      draw_row(workspace, model, static_cast<std::size_t>(i), colors);
  ImGui::EndTable();
}

void draw_selected(const KernelModel& model, std::size_t index, const Palette& colors) {
  const KernelRowModel& row = model.rows[index];
  const float em = ImGui::GetFontSize();
  const Color block = kernel_color(kernel_class_from(row.row->kernel_class));
  const ImVec2 corner = ImGui::GetCursorScreenPos();
  ImGui::GetWindowDrawList()->AddRectFilled(
      corner, ImVec2(corner.x + em, corner.y + em), to_u32(block));
  ImGui::Dummy(ImVec2(em, em));
  ImGui::SameLine();
  text_wrapped(colors.text, printable(row.row->name));
  text_wrapped(
      colors.muted,
      fmt::format("{} in stage {} · {:.4g} calls per step in the baseline, {:.4g} in the "
                  "candidate · Enter shows it in the timeline, n and N its next and previous call",
                  to_string(row.row->status),
                  to_string(row.row->stage),
                  row.row->calls_a,
                  row.row->calls_b));
}

} // namespace

TextTable kernels_table(const Workspace& workspace) {
  const KernelModel model = kernel_model(workspace);
  TextTable table{kernel_columns(model)};
  for (const KernelRowModel& row : model.rows) table.push_back(kernel_cells(model, row));
  return table;
}

void draw_kernels(Workspace& workspace) {
  const Palette& colors = palette(workspace.theme);
  const KernelModel model = kernel_model(workspace);
  ImGui::PushFont(nullptr, ImGui::GetStyle().FontSizeBase * 1.35F);
  text_cut(colors.text, model.title.empty() ? "Kernels" : "Difference of " + model.title);
  ImGui::PopFont();
  if (!model.warning.empty()) text_wrapped(colors.warning, "! " + model.warning);
  if (model.all > 0) draw_filters(workspace, model, colors);
  if (model.notice) {
    notice(colors, *model.notice, false);
    return;
  }
  workspace.kernels.row = std::min(workspace.kernels.row, model.rows.size() - 1);
  const float below = 4.6F * ImGui::GetTextLineHeightWithSpacing();
  draw_table(workspace,
             model,
             std::max(6 * ImGui::GetFontSize(), ImGui::GetContentRegionAvail().y - below));
  if (ImGui::BeginChild("selected", ImVec2(0, 0)))
    draw_selected(model, workspace.kernels.row, colors);
  ImGui::EndChild();
}

} // namespace assay
