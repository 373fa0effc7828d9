// The window: what is open above, screens at the left, the current one in the middle, state below;
// palette and help on top.
#pragma once

namespace assay {

struct Workspace;

// One frame, between ImGui's NewFrame and Render: takes the keys, then draws.
void draw_main_window(Workspace& workspace);

} // namespace assay
