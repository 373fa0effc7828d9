// The right side of the screen "Compare" shows one of several things about a comparison.
#pragma once

#include <string_view>
#include <vector>

namespace assay {

struct Workspace;

enum class ComparePane { Stages, Speed, Memory, Loss };

std::vector<ComparePane> compare_panes(const Workspace& workspace); // that this comparison has
// The chosen one if the comparison has it; else stages, or, of a cell that was planned without
// traces, what there is instead: losses, speed, memory.
ComparePane shown_pane(const Workspace& workspace);
void next_pane(Workspace& workspace);

std::string_view to_string(ComparePane pane); // "loss"
std::string_view title_of(ComparePane pane);  // as a heading

} // namespace assay
