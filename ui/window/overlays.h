// Overlays of the screens: the command palette and the help.
#pragma once

namespace assay {

struct Workspace;

void draw_palette(Workspace& workspace);
void draw_help(Workspace& workspace);

} // namespace assay
