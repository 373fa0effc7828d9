// Renderers of explanations (docs/report-schema.md). None computes a figure.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "experiments/analysis/report.h"
#include "experiments/report/render.h"

namespace assay {

// Cell and comparison, as indices into a report.
using ComparisonIndex = std::pair<std::size_t, std::size_t>;

// One comparison whole: headline, waterfall, closure, the `top` largest rows, audit.
std::string render_explain_table(const Report& report,
                                 const ComparisonIndex& which,
                                 std::size_t top,
                                 const TableStyle& style);
// Several, two lines each.
std::string render_explain_summary(const Report& report,
                                   const std::vector<ComparisonIndex>& which,
                                   const TableStyle& style);
// {"schema_version", "comparisons": […]}; `top` rows of each list.
std::string render_explain_json(const Report& report,
                                const std::vector<ComparisonIndex>& which,
                                std::size_t top);
// The part of a comparison's card on the report page: the explanation, or why there is none, and
// the ranks' line; "" without any.
std::string explanation_html(const Comparison& comparison);

} // namespace assay
