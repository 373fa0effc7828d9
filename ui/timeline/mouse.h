// The mouse on the timeline. Left: select, drag to measure; middle drag: zoom to the range; right
// drag or Shift + left drag: pan; Ctrl + wheel: zoom at the pointer; double click: focus.
#pragma once

#include <vector>

#include "ui/timeline/draw.h"

namespace assay {

// Whether the wheel zooms now; otherwise it scrolls. Never both.
bool wheel_zooms(const Workspace& workspace);
// Inside the lanes' child window, after they were drawn.
void handle_mouse(Workspace& workspace, const SideFrame& frame);
// The event under the pointer, in words.
void show_tooltip(Workspace& workspace, const std::vector<SideFrame>& frames);

} // namespace assay
