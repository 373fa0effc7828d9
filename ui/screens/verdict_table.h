// The verdict table: one row a comparison, the effect drawn as an interval bar.
#pragma once

namespace assay {

struct Workspace;

void draw_verdict_table(Workspace& workspace); // into the current window, in the space that is left

} // namespace assay
