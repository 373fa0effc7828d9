// Command: one row gives an action its keys, its line in the help and its place in tests.
#pragma once

#include <string_view>
#include <vector>

namespace assay {

struct Workspace;

struct Command {
  std::string_view id, title, keys; // keys: as people read them
  std::vector<int> chords;          // ImGuiKeyChord
  void (*run)(Workspace&);
};

const std::vector<Command>& commands();
const Command* find_command(std::string_view id);

// Runs the commands whose keys were pressed in this frame.
void run_pressed_commands(Workspace& workspace);

} // namespace assay
