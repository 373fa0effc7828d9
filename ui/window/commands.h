// Command: one row gives an action its keys, its line in palette and help, its place in scripts and
// random tests.
#pragma once

#include <string_view>
#include <vector>

namespace assay {

struct Workspace;

struct Command {
  std::string_view id, title, keys; // keys: as people read them
  std::vector<int> chords;          // ImGuiKeyChord
  bool (*when)(const Workspace&);   // null: always
  void (*run)(Workspace&);

  bool possible(const Workspace& workspace) const { return when == nullptr || when(workspace); }
};

const std::vector<Command>& commands();
const Command* find_command(std::string_view id);

// Runs the commands whose keys were pressed in this frame. While a text field has the keyboard,
// plain letters and digits belong to it.
void run_pressed_commands(Workspace& workspace);

// The groups that commands() is put together from.
std::vector<Command> window_commands();
std::vector<Command> row_commands();
std::vector<Command> timeline_commands();

} // namespace assay
