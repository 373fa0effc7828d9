// The words and numbers of an explanation that people read; command line, page and viewer call
// these. ASCII only.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/analysis/report.h"

namespace assay {

// One unit for all times of a waterfall, by its larger step.
struct TimeScale {
  const char* unit = "ms";
  double ns = 1e6;
};
TimeScale scale_of(const Waterfall& waterfall);
std::string time_text(double ns, const TimeScale& scale);       // "12.34", in the scale's unit
std::string difference_text(double ns, const TimeScale& scale); // signed, never "-0.00"
std::string difference_interval_text(const std::optional<Interval>& ns, const TimeScale& scale);

// A stage's part of the whole traced difference, "62 %"; "-" where that difference is not
// significant.
std::string stage_share_text(const Waterfall& waterfall, double delta_ns);
// "where: forward -4.10 ms (62 %), backward -2.20 ms (34 %, not significant); the parts add up to
// the timed difference"
std::string where_text(const Explanation& explanation);
// "30 pairs of traced steps, timed on the device"
std::string traced_pairs_text(const Explanation& explanation);
// Whether the stages add up to the timed difference, and by how much not.
std::string closure_text(const Waterfall& waterfall);
// The same without its verdict, for a place beside where_text(), which gives it.
std::string closure_figures_text(const Waterfall& waterfall);
// "audit passed; a traced step takes x1.010 (baseline) and x1.012 (candidate) of a timed one"
std::string audit_text(const Waterfall& waterfall);
// "12", "12.5": calls per step
std::string calls_text(double calls);

// Cell and comparison, as indices into a report.
using ComparisonIndex = std::pair<std::size_t, std::size_t>;
// "no breakdown of a, b: REASON": each reason once, with its cells. Empty where nothing looked for
// traces.
std::vector<std::string> no_breakdown_notes(const Report& report,
                                            const std::vector<ComparisonIndex>& which);

// The comparison that a cell is about: one that answers a claim, else the last level against the
// reference. Nothing for a cell without comparisons.
std::optional<std::size_t> main_comparison(const Report& report, std::size_t cell);

} // namespace assay
