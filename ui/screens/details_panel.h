// Details of the selected row: reasons, claims, gates and memory as text, every launch's
// own effect as a plot.
#pragma once

namespace assay {

struct Workspace;

void draw_details(Workspace& workspace); // into the current window, in the space that is left

} // namespace assay
