// Renderers of explanations (docs/report-schema.md). None computes a figure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "experiments/analysis/report.h"
#include "experiments/report/explain_wording.h"
#include "experiments/report/render.h"

namespace assay {

// One comparison whole: headline, waterfall, closure, the `top` largest rows, audit.
std::string render_explain_table(const Report& report,
                                 const ComparisonIndex& which,
                                 std::size_t top,
                                 const TableStyle& style);
// Two trace files, whoever made them: what they are (`origins`, a line each), stages and the `top`
// largest rows. One trace a side gives no verdict, and the text says so.
std::string render_explain_traces(const Explanation& explanation,
                                  const std::vector<std::string>& origins,
                                  std::size_t top,
                                  const TableStyle& style);
// {"schema_version", "verdict": null, "traces", "explanation"}.
std::string render_explain_traces_json(const Explanation& explanation,
                                       const std::vector<std::string>& origins,
                                       std::size_t top);
// What the bytes at the comparison's peak of memory are; `top` modules.
std::string render_explain_memory(const Report& report,
                                  const ComparisonIndex& which,
                                  std::size_t top,
                                  const TableStyle& style);
// {"schema_version", "comparisons": [{…, "memory"}]}, `memory` as in report.json.
std::string render_memory_json(const Report& report, const std::vector<ComparisonIndex>& which);
// Several, two lines each; those without traces in one line per reason.
std::string render_explain_summary(const Report& report,
                                   const std::vector<ComparisonIndex>& which,
                                   const TableStyle& style);
// {"schema_version", "comparisons": […]}; `top` rows of each list.
std::string render_explain_json(const Report& report,
                                const std::vector<ComparisonIndex>& which,
                                std::size_t top);
// The part of a comparison's card on the report page: the explanation and the ranks' line; ""
// without any. Why there is none: no_breakdown_notes().
std::string explanation_html(const Comparison& comparison);

} // namespace assay
