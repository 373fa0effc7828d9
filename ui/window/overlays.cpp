#include "ui/window/overlays.h"

#include <algorithm>
#include <cctype>

#include "imgui.h"
#include "ui/screens/screens.h"
#include "ui/style/input.h"
#include "ui/style/trace_colors.h"
#include "ui/style/widgets.h"
#include "ui/window/commands.h"

namespace assay {
namespace {

constexpr ImGuiWindowFlags kOverlay = ImGuiWindowFlags_NoTitleBar | ImGuiWindowFlags_NoResize |
                                      ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoSavedSettings |
                                      ImGuiWindowFlags_NoCollapse;

// All letters of the query occur in the title in this order.
bool matches(std::string_view title, std::string_view query) {
  std::size_t at = 0;
  for (const char c : title)
    if (at < query.size() && std::tolower(static_cast<unsigned char>(c)) ==
                                 std::tolower(static_cast<unsigned char>(query[at])))
      ++at;
  return at == query.size();
}

std::vector<const Command*> matching(const Workspace& workspace) {
  std::vector<const Command*> found;
  for (const Command& command : commands())
    if (command.id != "palette" && command.possible(workspace) &&
        matches(command.title, workspace.palette.query))
      found.push_back(&command);
  return found;
}

// Begins a bordered window in the middle; End and two pops follow in end_overlay.
bool begin_overlay(
    const char* name, ImVec2 position, ImVec2 pivot, ImVec2 size, const Palette& colors) {
  ImGui::SetNextWindowPos(position, ImGuiCond_Always, pivot);
  ImGui::SetNextWindowSize(size);
  ImGui::PushStyleColor(ImGuiCol_WindowBg, to_vec4(colors.panel));
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 1);
  return ImGui::Begin(name, nullptr, kOverlay);
}

void end_overlay() {
  ImGui::End();
  ImGui::PopStyleVar();
  ImGui::PopStyleColor();
}

void draw_sign(const Palette& colors, Tone tone, const char* word, const char* meaning) {
  badge(colors, tone, word);
  ImGui::SameLine(6 * ImGui::GetFontSize());
  text_wrapped(colors.text, meaning);
}

void draw_colours(const Palette& colors) {
  text(colors.accent, "Colours of a verdict (the words decide)");
  draw_sign(colors, Tone::Good, "good", "a true gain that leaves the training unharmed");
  draw_sign(colors, Tone::Bad, "bad", "slower, harmful, or the claim is refuted");
  draw_sign(
      colors, Tone::Mixed, "mixed", "a true gain that misses its claim, or a claim kept at a cost");
  draw_sign(colors, Tone::Neutral, "open", "no effect, not enough evidence, or nothing to judge");
  const float em = ImGui::GetFontSize();
  const auto swatch = [&](Color color, std::string_view words) {
    const ImVec2 corner = ImGui::GetCursorScreenPos();
    ImGui::GetWindowDrawList()->AddRectFilled(ImVec2(corner.x, corner.y + em * 0.15F),
                                              ImVec2(corner.x + em, corner.y + em * 0.95F),
                                              to_u32(color));
    ImGui::Dummy(ImVec2(em, em));
    ImGui::SameLine(0, em * 0.5F);
    text(colors.text, words);
  };
  ImGui::Dummy(ImVec2(0, em * 0.5F));
  text(colors.accent, "Stages");
  for (std::size_t i = 0; i < kStages; ++i)
    swatch(stage_color(static_cast<Stage>(i)), to_string(static_cast<Stage>(i)));
  ImGui::Dummy(ImVec2(0, em * 0.5F));
  text(colors.accent, "Kernels and operators");
  for (std::size_t i = 0; i < kKernelClasses; ++i)
    swatch(kernel_color(static_cast<KernelClass>(i)), to_string(static_cast<KernelClass>(i)));
}

void draw_keys(const Workspace& workspace, const Palette& colors) {
  const float em = ImGui::GetFontSize();
  const Screen& screen = current_screen(workspace);
  text(colors.accent, screen.title);
  text_wrapped(colors.text, screen.help);
  ImGui::Dummy(ImVec2(0, em * 0.4F));
  text(colors.accent, "Keys (grey, at the end: not on this screen)");
  for (const bool possible : {true, false}) // what works here comes first
    for (const Command& command : commands()) {
      if (command.possible(workspace) != possible) continue;
      text(possible ? colors.text : colors.muted, command.keys);
      ImGui::SameLine(8 * em);
      text_wrapped(colors.muted, command.title);
    }
}

} // namespace

void draw_palette(Workspace& workspace) {
  const Palette& colors = palette(workspace.theme);
  const float em = ImGui::GetFontSize();
  const ImVec2 display = ImGui::GetIO().DisplaySize;
  const std::vector<const Command*> found = matching(workspace);
  const Command* chosen = nullptr;
  if (begin_overlay(
          "palette",
          ImVec2(display.x / 2, display.y * 0.12F),
          ImVec2(0.5F, 0),
          ImVec2(std::min(40 * em, display.x * 0.9F), std::min(26 * em, display.y * 0.8F)),
          colors)) {
    if (!ImGui::IsAnyItemActive()) ImGui::SetKeyboardFocusHere();
    const std::string before = workspace.palette.query;
    const bool enter = input_text("##query", "what to do", workspace.palette.query, -1);
    if (before != workspace.palette.query) workspace.palette.row = 0;
    std::size_t& row = workspace.palette.row;
    if (ImGui::IsKeyPressed(ImGuiKey_DownArrow) && row + 1 < found.size()) ++row;
    if (ImGui::IsKeyPressed(ImGuiKey_UpArrow) && row > 0) --row;
    if (ImGui::BeginChild("found", ImVec2(0, 0)))
      for (std::size_t i = 0; i < found.size(); ++i) {
        ImGui::PushID(static_cast<int>(i));
        mark_target(workspace, fmt::format("palette.{}", found[i]->id));
        if (ImGui::Selectable(std::string(found[i]->title).c_str(), i == row)) chosen = found[i];
        if (i == row && ImGui::IsKeyPressed(ImGuiKey_DownArrow)) ImGui::SetScrollHereY(0.5F);
        const std::string keys(found[i]->keys);
        ImGui::SameLine(ImGui::GetContentRegionMax().x - ImGui::CalcTextSize(keys.c_str()).x);
        text(colors.muted, keys);
        ImGui::PopID();
      }
    ImGui::EndChild();
    if (enter && row < found.size()) chosen = found[row];
  }
  end_overlay();
  if (chosen == nullptr) return;
  workspace.palette = {};
  chosen->run(workspace);
}

void draw_help(Workspace& workspace) {
  const Palette& colors = palette(workspace.theme);
  const float em = ImGui::GetFontSize();
  const ImVec2 display = ImGui::GetIO().DisplaySize;
  const ImVec2 size(std::min(74 * em, display.x * 0.94F), std::min(62 * em, display.y * 0.92F));
  if (begin_overlay(
          "help", ImVec2(display.x / 2, display.y / 2), ImVec2(0.5F, 0.5F), size, colors)) {
    const float width = ImGui::GetContentRegionAvail().x;
    if (ImGui::BeginChild("keys", ImVec2(width * 0.58F, 0))) draw_keys(workspace, colors);
    ImGui::EndChild();
    ImGui::SameLine();
    if (ImGui::BeginChild("colours", ImVec2(0, 0))) draw_colours(colors);
    ImGui::EndChild();
  }
  end_overlay();
}

} // namespace assay
