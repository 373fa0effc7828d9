// The waterfall of a comparison: the baseline's step, the stages' differences, the candidate's
// step, as rows on one time axis.
#pragma once

namespace assay {

struct WaterfallModel;
struct Workspace;

// Into the width that is left. A click on a stage shows it in the timeline.
void draw_waterfall(Workspace& workspace, const WaterfallModel& model);

} // namespace assay
