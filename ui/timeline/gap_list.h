// The list of idle gaps under the two traces.
#pragma once

namespace assay {

struct Workspace;

// Height that the table takes of `spare`, what the lanes can do without. 0: none, or too little;
// one line of words is then all.
float gap_list_height(const Workspace& workspace, float spare);
// The words, and below them, as far as `height` goes, the table; a click shows the gap.
void draw_gap_list(Workspace& workspace, float height);

} // namespace assay
