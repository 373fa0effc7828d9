#include "ui/window/commands.h"

#include "imgui.h"
#include "ui/model/workspace.h"

namespace assay {
namespace {

constexpr int kModifiers = ImGuiMod_Ctrl | ImGuiMod_Alt;

bool belongs_to_text(int chord) {
  if ((chord & kModifiers) != 0) return false;
  const int key = chord & ~ImGuiMod_Mask_;
  return key != ImGuiKey_Escape && !(key >= ImGuiKey_F1 && key <= ImGuiKey_F24) &&
         key != ImGuiKey_UpArrow && key != ImGuiKey_DownArrow;
}

} // namespace

const std::vector<Command>& commands() {
  static const std::vector<Command> table = [] {
    std::vector<Command> all = window_commands();
    for (auto& group : {row_commands(), timeline_commands()})
      all.insert(all.end(), group.begin(), group.end());
    return all;
  }();
  return table;
}

const Command* find_command(std::string_view id) {
  for (const Command& command : commands())
    if (command.id == id) return &command;
  return nullptr;
}

void run_pressed_commands(Workspace& workspace) {
  const bool typing = ImGui::GetIO().WantTextInput;
  const bool palette = workspace.palette.open; // has Up, Down and Enter for itself
  for (const Command& command : commands()) {
    if (!command.possible(workspace)) continue;
    for (const int chord : command.chords) {
      if (!ImGui::IsKeyChordPressed(chord)) continue;
      if ((typing || palette) && belongs_to_text(chord)) continue;
      if (palette && (chord == ImGuiKey_UpArrow || chord == ImGuiKey_DownArrow)) continue;
      command.run(workspace);
      return; // one action a frame: the next may no longer be possible
    }
  }
}

} // namespace assay
