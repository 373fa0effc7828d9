// Workspace: the only state of the viewer. Screens read it, commands change it.
#pragma once

#include <algorithm>
#include <string>

#include "ui/theme.h"
#include "ui/verdict_model.h"

namespace assay {

inline constexpr float kMinScale = 0.75F, kMaxScale = 3;

struct Workspace {
  std::string directory;
  VerdictModel model;
  std::size_t selected = 0; // row
  bool scroll_to_selected = false;
  float scroll_details = 0; // lines to scroll the details by in the next frame
  bool help = false;
  bool quit = false;
  ThemeKind theme = ThemeKind::Dark;
  float scale = 1;
  float initial_scale = 1; // what Ctrl+0 returns to
};

// Reads the directory (again); the selection stays if it still exists.
void load(Workspace& workspace);

void select_row(Workspace& workspace, std::ptrdiff_t step);
void set_scale(Workspace& workspace, float scale);

} // namespace assay
