// The waterfall of a comparison: A's step, the stages' differences, B's step, as rows on one time
// axis.
#pragma once

namespace assay {

struct WaterfallModel;
struct Workspace;

// Into the width that is left. A click on a stage shows it in the timeline.
void draw_waterfall(Workspace& workspace, const WaterfallModel& model);

} // namespace assay
