// The content of a dragged range, in words, for both sides.
#pragma once

#include <array>
#include <optional>
#include <string>

namespace assay {

struct Workspace;

struct AreaSummary {
  std::array<std::string, 2> sides; // "" without a trace
};

// Nothing without a range.
std::optional<AreaSummary> area_summary(const Workspace& workspace);

} // namespace assay
