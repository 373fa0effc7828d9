// Every pair of visits: the baseline's and the candidate's time of one unit, joined by a line, in
// the order of rounds.
#pragma once

namespace assay {

struct Workspace;

void draw_pair_plot(Workspace& workspace); // into the space that is left

} // namespace assay
