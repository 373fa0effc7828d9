// Start: what to open, and what to run when there is nothing to open yet.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/text.h"
#include "imgui.h"
#include "ui/screens/screens.h"
#include "ui/style/input.h"
#include "ui/style/widgets.h"

namespace assay {
namespace {

constexpr const char* kExamples[][2] = {
    {"assay demo demo", "a synthetic results directory with every feature"},
    {"make quickstart", "five comparisons, measured on this machine"},
    {"assay run experiments/matrices/quickstart.toml --data DIR --out results/mine",
     "your own data"},
};

bool is_there(const std::string& path) {
  std::error_code none;
  return std::filesystem::exists(path, none);
}

void draw_recent(Workspace& workspace, const Palette& colors) {
  text(colors.accent, "Recent");
  if (workspace.recent.empty()) text(colors.muted, "nothing has been opened yet");
  for (std::size_t i = 0; i < workspace.recent.size(); ++i) {
    const std::string path = workspace.recent[i]; // opening it reorders the list
    const bool there = is_there(path);
    ImGui::PushID(static_cast<int>(i));
    mark_target(workspace, fmt::format("start.recent.{}", i));
    if (link(there ? colors.text : colors.muted, printable(path)) && there)
      open_path(workspace, path);
    if (!there) {
      ImGui::SameLine();
      text(colors.warning, "is no longer there");
    }
    ImGui::PopID();
  }
}

} // namespace

nlohmann::ordered_json start_model(const Workspace& workspace) {
  nlohmann::ordered_json recent = nlohmann::ordered_json::array();
  for (const std::string& path : workspace.recent)
    recent.push_back({{"path", printable(path)}, {"there", is_there(path)}});
  nlohmann::ordered_json examples = nlohmann::ordered_json::array();
  for (const auto& example : kExamples) examples.push_back(example[0]);
  return {
      {"recent", recent}, {"examples", examples}, {"open_error", printable(workspace.open_error)}};
}

void draw_start(Workspace& workspace) {
  const Palette& colors = palette(workspace.theme);
  const float em = ImGui::GetFontSize();
  const float width = std::min(ImGui::GetContentRegionAvail().x, 56 * em);
  ImGui::SetCursorPos(
      ImVec2(ImGui::GetCursorPosX() + (ImGui::GetContentRegionAvail().x - width) / 2,
             ImGui::GetCursorPosY() + ImGui::GetContentRegionAvail().y * 0.08F));
  if (ImGui::BeginChild("start", ImVec2(width, 0))) {
    ImGui::PushFont(nullptr, ImGui::GetStyle().FontSizeBase * 2);
    text(colors.text, "Assay");
    ImGui::PopFont();
    text_wrapped(colors.muted, "Does an optimization pay? By how much, and where in the step?");
    ImGui::Dummy(ImVec2(0, em));
    text(colors.accent, "Open a results directory or a trace file (or drop it here)");
    if (workspace.focus_input) ImGui::SetKeyboardFocusHere();
    workspace.focus_input = false;
    mark_target(workspace, "start.path");
    if (input_text("##path", "path of a results directory", workspace.path_input, width - 6 * em))
      open_path(workspace, workspace.path_input);
    ImGui::SameLine();
    if (ImGui::Button("Open")) open_path(workspace, workspace.path_input);
    if (!workspace.open_error.empty()) text_wrapped(colors.bad, printable(workspace.open_error));
    ImGui::Dummy(ImVec2(0, em));
    draw_recent(workspace, colors);
    ImGui::Dummy(ImVec2(0, em));
    text(colors.accent, "Nothing to open yet?");
    for (const auto& [command, meaning] : kExamples) {
      text_wrapped(colors.text, command);
      ImGui::Indent(1.5F * em);
      text_wrapped(colors.muted, meaning);
      ImGui::Unindent(1.5F * em);
    }
  }
  ImGui::EndChild();
}

} // namespace assay
