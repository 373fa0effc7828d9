// The "explanation" object and the "ranks" of a comparison in report.json and of `assay explain
// --json` (docs/report-schema.md).
#pragma once

#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>

#include "experiments/analysis/report.h"

namespace assay {

inline constexpr std::size_t kEveryRow = std::numeric_limits<std::size_t>::max();

// null without an explanation.
nlohmann::ordered_json explanation_json(const Comparison& comparison, std::size_t top);
// The array "ranks" beside it.
nlohmann::ordered_json ranks_json(const Comparison& comparison);

} // namespace assay
