#include "ui/commands.h"

#include "imgui.h"
#include "ui/workspace.h"

namespace assay {
namespace {

constexpr float kScaleStep = 0.125F;
constexpr float kPageLines = 8;

void close_topmost(Workspace& workspace) {
  if (workspace.help)
    workspace.help = false;
  else
    select_row(workspace, -static_cast<std::ptrdiff_t>(workspace.selected));
}

void toggle_theme(Workspace& workspace) {
  workspace.theme = workspace.theme == ThemeKind::Dark ? ThemeKind::Light : ThemeKind::Dark;
}

} // namespace

const std::vector<Command>& commands() {
  static const std::vector<Command> table{
      {"row.next",
       "Next row",
       "Down, J",
       {ImGuiKey_DownArrow, ImGuiKey_J},
       [](Workspace& w) { select_row(w, 1); }},
      {"row.previous",
       "Previous row",
       "Up, K",
       {ImGuiKey_UpArrow, ImGuiKey_K},
       [](Workspace& w) { select_row(w, -1); }},
      {"details.down",
       "Scroll details down",
       "Page Down",
       {ImGuiKey_PageDown},
       [](Workspace& w) { w.scroll_details = kPageLines; }},
      {"details.up",
       "Scroll details up",
       "Page Up",
       {ImGuiKey_PageUp},
       [](Workspace& w) { w.scroll_details = -kPageLines; }},
      {"reload", "Read the results again", "F5", {ImGuiKey_F5}, [](Workspace& w) { load(w); }},
      {"scale.larger",
       "Larger text",
       "Ctrl +",
       {ImGuiMod_Ctrl | ImGuiKey_Equal,
        ImGuiMod_Ctrl | ImGuiMod_Shift | ImGuiKey_Equal,
        ImGuiMod_Ctrl | ImGuiKey_KeypadAdd},
       [](Workspace& w) { set_scale(w, w.scale + kScaleStep); }},
      {"scale.smaller",
       "Smaller text",
       "Ctrl -",
       {ImGuiMod_Ctrl | ImGuiKey_Minus, ImGuiMod_Ctrl | ImGuiKey_KeypadSubtract},
       [](Workspace& w) { set_scale(w, w.scale - kScaleStep); }},
      {"scale.reset",
       "Text size as at start",
       "Ctrl 0",
       {ImGuiMod_Ctrl | ImGuiKey_0, ImGuiMod_Ctrl | ImGuiKey_Keypad0},
       [](Workspace& w) { set_scale(w, w.initial_scale); }},
      {"theme", "Dark or light", "Ctrl T", {ImGuiMod_Ctrl | ImGuiKey_T}, toggle_theme},
      {"help",
       "Keys and colours",
       "?, F1",
       {ImGuiMod_Shift | ImGuiKey_Slash, ImGuiKey_F1},
       [](Workspace& w) { w.help = !w.help; }},
      {"close", "Close help; else back to the first row", "Esc", {ImGuiKey_Escape}, close_topmost},
      {"quit", "Quit", "Ctrl Q", {ImGuiMod_Ctrl | ImGuiKey_Q}, [](Workspace& w) { w.quit = true; }},
  };
  return table;
}

const Command* find_command(std::string_view id) {
  for (const Command& command : commands())
    if (command.id == id) return &command;
  return nullptr;
}

void run_pressed_commands(Workspace& workspace) {
  for (const Command& command : commands())
    for (const int chord : command.chords)
      if (ImGui::IsKeyChordPressed(chord)) command.run(workspace);
}

} // namespace assay
