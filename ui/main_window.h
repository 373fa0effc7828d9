// The viewer's one window: header, verdict table, details of the selected row, key line; help on
// top.
#pragma once

namespace assay {

struct Workspace;

// One frame, between ImGui's NewFrame and Render: takes the keys, then draws.
void draw_main_window(Workspace& workspace);

} // namespace assay
