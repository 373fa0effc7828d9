#include "ui/window/main_window.h"

#include <algorithm>

#include "core/text.h"
#include "imgui.h"
#include "ui/model/side.h"
#include "ui/screens/screens.h"
#include "ui/style/input.h"
#include "ui/style/widgets.h"
#include "ui/window/commands.h"
#include "ui/window/overlays.h"

namespace assay {
namespace {

constexpr ImGuiWindowFlags kFixed =
    ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoSavedSettings |
    ImGuiWindowFlags_NoBringToFrontOnFocus |
    ImGuiWindowFlags_NoBackground; // the backend's clear is cheaper than a fill

std::string opened_text(const Workspace& workspace) {
  if (workspace.path.empty()) return "nothing is open";
  if (workspace.other_path.empty()) return printable(workspace.path);
  return fmt::format("{} · {} · one trace a side: no verdict",
                     printable(workspace.path),
                     printable(workspace.other_path));
}

void draw_top(Workspace& workspace, const Palette& colors) {
  const float em = ImGui::GetFontSize();
  text(colors.accent, "Assay");
  ImGui::SameLine(0, em);
  const Comparison* comparison = workspace.comparison();
  if (comparison != nullptr && workspace.screen != ScreenId::Start) {
    text(colors.text, printable(workspace.cell()->cell.name));
    ImGui::SameLine(0, em);
    side_mark(colors, 0);
    text(colors.text, side_title(0, comparison->a));
    ImGui::SameLine(0, em);
    side_mark(colors, 1);
    text(colors.text, side_title(1, comparison->b));
    ImGui::SameLine(0, em);
  }
  text_cut(colors.muted, opened_text(workspace));
  ImGui::Separator();
}

void draw_rail(Workspace& workspace, const Palette& colors) {
  const float em = ImGui::GetFontSize();
  ImDrawList* const draw = ImGui::GetWindowDrawList();
  for (const Screen& screen : screens()) {
    const ImVec2 corner = ImGui::GetCursorScreenPos();
    const ImVec2 size(ImGui::GetContentRegionAvail().x, em * 2);
    ImGui::PushID(screen.id.data());
    mark_target(workspace, fmt::format("screen.{}", screen.id), corner.x + em, corner.y + em);
    if (ImGui::InvisibleButton("go", size)) go_to(workspace, screen.screen);
    const bool current = workspace.screen == screen.screen;
    if (current || ImGui::IsItemHovered())
      draw->AddRectFilled(
          corner, ImVec2(corner.x + size.x, corner.y + size.y), to_u32(colors.selected));
    if (current)
      draw->AddRectFilled(
          corner, ImVec2(corner.x + em * 0.2F, corner.y + size.y), to_u32(colors.accent));
    draw->AddText(ImVec2(corner.x + em * 0.5F, corner.y + em * 0.5F),
                  to_u32(colors.muted),
                  std::string(screen.key).c_str());
    draw->AddText(ImVec2(corner.x + em * 1.5F, corner.y + em * 0.5F),
                  to_u32(colors.text),
                  std::string(screen.title).c_str());
    ImGui::PopID();
  }
}

std::string state_words(const Workspace& workspace) {
  if (!workspace.status.empty()) return printable(workspace.status);
  if (workspace.loading && !workspace.results) return "reading the results …";
  if (workspace.loading) return "reading the traces …";
  if (workspace.traces[0].loading || workspace.traces[1].loading)
    return "reading traces for the timeline …";
  if (!workspace.results) return "";
  return workspace.results->report.complete() ? "the plan is complete"
                                              : "the plan is not complete yet";
}

void draw_bottom(const Workspace& workspace, const Palette& colors) {
  ImGui::Separator();
  const std::string hint = "Ctrl P commands   ? keys and colours";
  const float room = ImGui::CalcTextSize(hint.c_str()).x;
  const float width = ImGui::GetContentRegionAvail().x;
  const std::string words = state_words(workspace);
  if (ImGui::CalcTextSize(words.c_str()).x + room + 2 * ImGui::GetFontSize() > width) {
    text_cut(colors.muted, words.empty() ? hint : words);
    return;
  }
  text(colors.muted, words);
  ImGui::SameLine(ImGui::GetCursorPosX() + width - room);
  text(colors.muted, hint);
}

void draw_body(Workspace& workspace, const Palette& colors) {
  if (const auto block = blocked(workspace))
    notice(colors, block->notice, block->failed);
  else
    current_screen(workspace).draw(workspace);
}

} // namespace

void draw_main_window(Workspace& workspace) {
  run_pressed_commands(workspace);
  workspace.targets.clear();
  apply_theme(workspace.theme, workspace.scale);
  const Palette& colors = palette(workspace.theme);
  ImGui::SetNextWindowPos(ImVec2(0, 0));
  ImGui::SetNextWindowSize(ImGui::GetIO().DisplaySize);
  if (ImGui::Begin("main", nullptr, kFixed)) {
    const float em = ImGui::GetFontSize();
    draw_top(workspace, colors);
    const float footer = ImGui::GetTextLineHeightWithSpacing() + ImGui::GetStyle().ItemSpacing.y;
    const float height = std::max(em, ImGui::GetContentRegionAvail().y - footer);
    if (ImGui::BeginChild("rail", ImVec2(7 * em, height))) draw_rail(workspace, colors);
    ImGui::EndChild();
    ImGui::SameLine();
    const ImGuiWindowFlags flags =
        ImGuiWindowFlags_NoScrollbar | ImGuiWindowFlags_NoScrollWithMouse;
    if (ImGui::BeginChild("body", ImVec2(0, height), 0, flags)) draw_body(workspace, colors);
    ImGui::EndChild();
    draw_bottom(workspace, colors);
  }
  ImGui::End();
  if (workspace.palette.open) draw_palette(workspace);
  if (workspace.help) draw_help(workspace);
  if (!workspace.copied.empty()) ImGui::SetClipboardText(workspace.copied.c_str());
  workspace.copied.clear();
}

} // namespace assay
