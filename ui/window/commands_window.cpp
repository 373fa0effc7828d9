// Commands of the window: screens, files, text size, help.
#include "imgui.h"
#include "ui/screens/screens.h"
#include "ui/window/commands.h"

namespace assay {
namespace {

constexpr float kScaleStep = 0.125F;

// Esc: the topmost thing goes away first.
void close_topmost(Workspace& workspace) {
  if (workspace.help)
    workspace.help = false;
  else if (workspace.palette.open)
    workspace.palette = {};
  else if (workspace.timeline.selected || workspace.timeline.area)
    workspace.timeline.selected.reset(), workspace.timeline.area.reset();
  else if (!workspace.kernels.filter.empty())
    workspace.kernels.filter.clear();
  else
    workspace.stage.reset();
}

void toggle_theme(Workspace& workspace) {
  workspace.theme = workspace.theme == ThemeKind::Dark ? ThemeKind::Light : ThemeKind::Dark;
}

bool has_table(const Workspace& workspace) {
  return current_screen(workspace).table != nullptr && !blocked(workspace);
}

void copy(Workspace& workspace, std::string (*format)(const TextTable&), const char* name) {
  const TextTable table = current_screen(workspace).table(workspace);
  workspace.copied = format(table);
  workspace.status = fmt::format("{} rows copied as {}", table.size() - 1, name);
}

void open_start(Workspace& workspace) {
  go_to(workspace, ScreenId::Start);
  workspace.focus_input = true;
}

bool has_path(const Workspace& workspace) {
  return !workspace.path.empty();
}

bool finds(const Workspace& workspace) {
  return workspace.screen == ScreenId::Kernels || workspace.screen == ScreenId::Timeline ||
         workspace.screen == ScreenId::Compare;
}

} // namespace

std::vector<Command> window_commands() {
  return {
      {"screen.start",
       "Screen: start",
       "H",
       {ImGuiKey_H},
       nullptr,
       [](Workspace& w) { go_to(w, ScreenId::Start); }},
      {"screen.runs",
       "Screen: runs and their verdicts",
       "1",
       {ImGuiKey_1, ImGuiKey_Keypad1},
       nullptr,
       [](Workspace& w) { go_to(w, ScreenId::Runs); }},
      {"screen.compare",
       "Screen: compare",
       "2",
       {ImGuiKey_2, ImGuiKey_Keypad2},
       nullptr,
       [](Workspace& w) { go_to(w, ScreenId::Compare); }},
      {"screen.timeline",
       "Screen: timeline",
       "3",
       {ImGuiKey_3, ImGuiKey_Keypad3},
       nullptr,
       [](Workspace& w) { go_to(w, ScreenId::Timeline); }},
      {"screen.kernels",
       "Screen: kernels and operators",
       "4",
       {ImGuiKey_4, ImGuiKey_Keypad4},
       nullptr,
       [](Workspace& w) { go_to(w, ScreenId::Kernels); }},
      {"screen.telemetry",
       "Screen: telemetry",
       "5",
       {ImGuiKey_5, ImGuiKey_Keypad5},
       nullptr,
       [](Workspace& w) { go_to(w, ScreenId::Telemetry); }},
      {"back",
       "Back",
       "Alt Left",
       {ImGuiMod_Alt | ImGuiKey_LeftArrow},
       [](const Workspace& w) { return !w.back.empty(); },
       go_back},
      {"forward",
       "Forward",
       "Alt Right",
       {ImGuiMod_Alt | ImGuiKey_RightArrow},
       [](const Workspace& w) { return !w.forward.empty(); },
       go_forward},
      {"palette",
       "Command palette",
       "Ctrl P",
       {ImGuiMod_Ctrl | ImGuiKey_P},
       nullptr,
       [](Workspace& w) {
         w.palette = {!w.palette.open, "", 0};
         w.help = false;
       }},
      {"find",
       "Find a kernel or operator",
       "Ctrl F, /",
       {ImGuiMod_Ctrl | ImGuiKey_F, ImGuiKey_Slash},
       finds,
       [](Workspace& w) {
         go_to(w, ScreenId::Kernels);
         w.focus_input = true;
       }},
      {"open",
       "Open a directory or a trace",
       "Ctrl O",
       {ImGuiMod_Ctrl | ImGuiKey_O},
       nullptr,
       open_start},
      {"reload", "Read the results again", "F5", {ImGuiKey_F5}, has_path, reload},
      {"copy.markdown",
       "Copy the table as Markdown",
       "Ctrl C",
       {ImGuiMod_Ctrl | ImGuiKey_C},
       has_table,
       [](Workspace& w) { copy(w, markdown, "Markdown"); }},
      {"copy.csv",
       "Copy the table as CSV",
       "Ctrl Shift C",
       {ImGuiMod_Ctrl | ImGuiMod_Shift | ImGuiKey_C},
       has_table,
       [](Workspace& w) { copy(w, csv, "CSV"); }},
      {"screenshot",
       "Write a picture of the window",
       "F12",
       {ImGuiKey_F12},
       nullptr,
       [](Workspace& w) { w.screenshot = fmt::format("assay-{}.png", id_of(w.screen)); }},
      {"details",
       "Show or hide the details",
       "Q",
       {ImGuiKey_Q},
       [](const Workspace& w) { return w.screen == ScreenId::Compare; },
       [](Workspace& w) { w.details = !w.details; }},
      {"scale.larger",
       "Larger text",
       "Ctrl +",
       {ImGuiMod_Ctrl | ImGuiKey_Equal,
        ImGuiMod_Ctrl | ImGuiMod_Shift | ImGuiKey_Equal,
        ImGuiMod_Ctrl | ImGuiKey_KeypadAdd},
       nullptr,
       [](Workspace& w) { set_scale(w, w.scale + kScaleStep); }},
      {"scale.smaller",
       "Smaller text",
       "Ctrl -",
       {ImGuiMod_Ctrl | ImGuiKey_Minus, ImGuiMod_Ctrl | ImGuiKey_KeypadSubtract},
       nullptr,
       [](Workspace& w) { set_scale(w, w.scale - kScaleStep); }},
      {"scale.reset",
       "Text size as at start",
       "Ctrl 0",
       {ImGuiMod_Ctrl | ImGuiKey_0, ImGuiMod_Ctrl | ImGuiKey_Keypad0},
       nullptr,
       [](Workspace& w) { set_scale(w, w.initial_scale); }},
      {"theme", "Dark or light", "Ctrl T", {ImGuiMod_Ctrl | ImGuiKey_T}, nullptr, toggle_theme},
      {"help",
       "Keys and colours",
       "?, F1",
       {ImGuiMod_Shift | ImGuiKey_Slash, ImGuiKey_F1},
       nullptr,
       [](Workspace& w) {
         w.help = !w.help;
         w.palette = {};
       }},
      {"close",
       "Close what is on top; else clear selection and filters",
       "Esc",
       {ImGuiKey_Escape},
       nullptr,
       close_topmost},
      {"quit",
       "Quit",
       "Ctrl Q",
       {ImGuiMod_Ctrl | ImGuiKey_Q},
       nullptr,
       [](Workspace& w) { w.quit = true; }},
  };
}

} // namespace assay
