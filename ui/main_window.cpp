#include "ui/main_window.h"

#include <algorithm>

#include "imgui.h"
#include "ui/commands.h"
#include "ui/details_panel.h"
#include "ui/verdict_table.h"
#include "ui/widgets.h"
#include "ui/workspace.h"

namespace assay {
namespace {

constexpr ImGuiWindowFlags kFixed =
    ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoSavedSettings |
    ImGuiWindowFlags_NoBringToFrontOnFocus |
    ImGuiWindowFlags_NoBackground; // the backend's clear is cheaper than a fill

// One line an alarm; more than a few scroll, so that the verdicts stay in sight.
void draw_alarms(const std::vector<std::string>& alarms, const Palette& colors) {
  constexpr std::size_t kVisible = 4;
  if (alarms.empty()) return;
  const float lines = static_cast<float>(std::min(alarms.size(), kVisible)) + 0.4F;
  if (ImGui::BeginChild("alarms", ImVec2(0, lines * ImGui::GetTextLineHeightWithSpacing())))
    for (const std::string& line : alarms)
      text(colors.warning, "! " + line.substr(0, line.find('\n')));
  ImGui::EndChild();
}

void draw_header(const Workspace& workspace) {
  const Palette& colors = palette(workspace.theme);
  ImGui::PushFont(nullptr, ImGui::GetStyle().FontSizeBase * 1.5F);
  text(colors.text, workspace.model.name.empty() ? "Assay" : workspace.model.name);
  ImGui::PopFont();
  for (const std::string& line : workspace.model.provenance) text_wrapped(colors.muted, line);
  draw_alarms(workspace.model.alarms, colors);
  ImGui::Separator();
}

void draw_footer(const Workspace& workspace) {
  const Palette& colors = palette(workspace.theme);
  const std::string_view all =
      "Up/Down row   Page Up/Down details   F5 read again   Ctrl + - 0 text size   Ctrl T theme   "
      "? keys and colours   Ctrl Q quit";
  const bool fits =
      ImGui::CalcTextSize(all.data(), all.data() + all.size()).x < ImGui::GetContentRegionAvail().x;
  ImGui::Separator();
  text(colors.muted, fits ? all : "? keys and colours");
}

// The table takes what its rows need, at most 60 % of the space; the details get the rest.
float table_height(const Workspace& workspace, float available) {
  const float row = ImGui::GetFontSize() * 3.2F;
  return std::min(available * 0.6F,
                  row * static_cast<float>(workspace.model.rows.size()) +
                      2.5F * ImGui::GetFontSize());
}

void draw_verdicts(Workspace& workspace, float height) {
  const Palette& colors = palette(workspace.theme);
  interval_legend(colors);
  const float available = height - ImGui::GetTextLineHeightWithSpacing();
  if (ImGui::BeginChild("table", ImVec2(0, table_height(workspace, available))))
    draw_verdict_table(workspace);
  ImGui::EndChild();
  ImGui::Separator();
  const float footer = ImGui::GetTextLineHeightWithSpacing() + ImGui::GetStyle().ItemSpacing.y;
  if (ImGui::BeginChild("details", ImVec2(0, -footer))) draw_details(workspace);
  ImGui::EndChild();
}

void draw_sign(const Palette& colors, Tone tone, const char* word, const char* meaning) {
  badge(colors, tone, word);
  ImGui::SameLine(9 * ImGui::GetFontSize());
  text(colors.text, meaning);
}

void draw_help(Workspace& workspace) {
  const Palette& colors = palette(workspace.theme);
  const float em = ImGui::GetFontSize();
  const ImVec2 display = ImGui::GetIO().DisplaySize;
  ImGui::SetNextWindowPos(
      ImVec2(display.x / 2, display.y / 2), ImGuiCond_Always, ImVec2(0.5F, 0.5F));
  ImGui::PushStyleColor(ImGuiCol_WindowBg, to_vec4(colors.panel));
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 1);
  const ImGuiWindowFlags flags = ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove |
                                 ImGuiWindowFlags_NoSavedSettings |
                                 ImGuiWindowFlags_AlwaysAutoResize;
  if (ImGui::Begin("help", nullptr, flags)) {
    text(colors.accent, "Keys");
    for (const Command& command : commands()) {
      text(colors.text, command.keys);
      ImGui::SameLine(9 * em);
      text(colors.muted, command.title);
    }
    ImGui::Dummy(ImVec2(0, em * 0.5F));
    text(colors.accent, "Colours of a verdict (the words decide)");
    draw_sign(colors, Tone::Good, "good", "a true gain that leaves the training unharmed");
    draw_sign(colors, Tone::Bad, "bad", "slower, harmful, or the claim is refuted");
    draw_sign(colors,
              Tone::Mixed,
              "mixed",
              "a true gain that misses its claim, or a claim kept at a cost");
    draw_sign(colors, Tone::Neutral, "open", "no effect, not enough evidence, or nothing to judge");
  }
  ImGui::End();
  ImGui::PopStyleVar();
  ImGui::PopStyleColor();
}

} // namespace

void draw_main_window(Workspace& workspace) {
  run_pressed_commands(workspace);
  apply_theme(workspace.theme, workspace.scale);
  ImGui::SetNextWindowPos(ImVec2(0, 0));
  ImGui::SetNextWindowSize(ImGui::GetIO().DisplaySize);
  if (ImGui::Begin("main", nullptr, kFixed)) {
    draw_header(workspace);
    const float footer = ImGui::GetTextLineHeightWithSpacing() + ImGui::GetStyle().ItemSpacing.y;
    const float height = ImGui::GetContentRegionAvail().y - footer;
    if (workspace.model.notice) {
      if (ImGui::BeginChild("notice", ImVec2(0, height)))
        notice(palette(workspace.theme), *workspace.model.notice, workspace.model.failed);
      ImGui::EndChild();
    } else {
      draw_verdicts(workspace, height);
    }
    draw_footer(workspace);
  }
  ImGui::End();
  if (workspace.help) draw_help(workspace);
}

} // namespace assay
