#include <algorithm>

#include "core/text.h"
#include "experiments/analysis/wording.h"
#include "experiments/report/explain_wording.h"
#include "experiments/report/render_explain.h"
#include "experiments/report/text_layout.h"

namespace assay {

namespace {

constexpr std::size_t kWidthWithIntervals = 96; // below, names matter more than a row's interval
constexpr std::ptrdiff_t kIntervalColumn = 6;

using Rows = std::vector<std::vector<std::string>>;

void print_headline(TextWriter& out, const CellReport& cell, const Comparison& comparison) {
  out.line(fmt::format("{}: {}: {}",
                       cell.cell.name,
                       comparison_text(comparison),
                       headline(comparison.verdict).text));
  if (comparison.effect)
    out.line(fmt::format("{} {}, timed: {} {}",
                         cell.cell.unit,
                         unit_time_text(*comparison.effect),
                         effect_text(comparison.effect->theta),
                         interval_text(comparison.effect->theta.at_95)),
             2);
}

void print_waterfall(TextWriter& out, const Explanation& explanation) {
  const Waterfall& waterfall = explanation.waterfall;
  const TimeScale scale = scale_of(waterfall);
  const std::string unit = std::string(" ") + scale.unit;
  Rows rows{{"stage", "A" + unit, "B" + unit, "difference", "95 % interval", "share"}};
  const auto add = [&](std::string_view name, double a, double b, const auto& interval) {
    rows.push_back({std::string(name),
                    time_text(a, scale),
                    time_text(b, scale),
                    difference_text(b - a, scale),
                    difference_interval_text(interval, scale),
                    stage_share_text(waterfall, b - a)});
  };
  for (const StageDelta& stage : waterfall.stages)
    add(to_string(stage.stage), stage.a_ns, stage.b_ns, stage.interval);
  add("step", waterfall.a_ns, waterfall.b_ns, waterfall.traced_interval);
  out.columns(rows, {false, true, true, true, true, true}, 2);
}

void print_ranks(TextWriter& out, const Comparison& comparison) {
  if (const std::string text = ranks_text(comparison); !text.empty()) out.line(text, 2);
}

void print_rows(TextWriter& out,
                const char* title,
                const std::vector<DiffRow>& rows,
                const Waterfall& waterfall,
                std::size_t top) {
  if (rows.empty() || top == 0) return;
  const TimeScale scale = scale_of(waterfall);
  out.raw("");
  out.line(fmt::format("{} (own time a step in {}; {} of {} rows, by size of the difference)",
                       title,
                       scale.unit,
                       std::min(top, rows.size()),
                       rows.size()));
  Rows table{{"", "stage", "calls", "A", "B", "difference", "95 % interval", "name"}};
  for (std::size_t i = 0; i < std::min(top, rows.size()); ++i) {
    const DiffRow& row = rows[i];
    table.push_back({std::string(to_string(row.status)),
                     std::string(to_string(row.stage)),
                     row.calls_a == row.calls_b
                         ? calls_text(row.calls_a)
                         : calls_text(row.calls_a) + " -> " + calls_text(row.calls_b),
                     time_text(row.a_ns, scale),
                     time_text(row.b_ns, scale),
                     difference_text(row.delta_ns, scale),
                     difference_interval_text(row.interval, scale),
                     fmt::format("{} ({})", row.short_name, row.kernel_class)});
  }
  std::vector<bool> right{false, false, true, true, true, true, true, false};
  if (out.width() < kWidthWithIntervals) {
    for (std::vector<std::string>& row : table) row.erase(row.begin() + kIntervalColumn);
    right.erase(right.begin() + kIntervalColumn);
  }
  out.columns(table, right, 2);
}

} // namespace

std::string render_explain_table(const Report& report,
                                 const ComparisonIndex& which,
                                 std::size_t top,
                                 const TableStyle& style) {
  const CellReport& cell = report.cells[which.first];
  const Comparison& comparison = cell.comparisons[which.second];
  TextWriter out(style);
  print_headline(out, cell, comparison);
  if (!comparison.explanation) {
    out.line("not explained: " + comparison.no_explanation, 2);
    return out.take();
  }
  const Waterfall& waterfall = comparison.explanation->waterfall;
  if (!waterfall.unusable.empty())
    out.line("nothing should rest on these traces: " + waterfall.unusable, 2);
  out.line(fmt::format("{} pairs of traced steps, tiled by the {} clock",
                       waterfall.pairs,
                       comparison.explanation->traced_as == "device" ? "device's" : "host's"),
           2);
  out.raw("");
  if (waterfall.pairs > 0) print_waterfall(out, *comparison.explanation);
  out.line(closure_text(waterfall), 2);
  print_ranks(out, comparison);
  print_rows(out, "kernels and copies", comparison.explanation->kernels, waterfall, top);
  print_rows(out, "operators", comparison.explanation->operators, waterfall, top);
  out.raw("");
  out.line(audit_text(waterfall), 2);
  for (const ClaimResult* claim : claims_of(report, which.first, which.second))
    if (!claim->claim.stages.empty())
      out.line(fmt::format("claim {} names {}: {}{}",
                           claim->claim.id,
                           claim->claim.stages,
                           claim_state_text(*claim),
                           claim->reason.empty() ? "" : "; " + claim->reason),
               2);
  return out.take();
}

std::string render_explain_summary(const Report& report,
                                   const std::vector<ComparisonIndex>& which,
                                   const TableStyle& style) {
  TextWriter out(style);
  for (const ComparisonIndex& one : which) {
    const CellReport& cell = report.cells[one.first];
    const Comparison& comparison = cell.comparisons[one.second];
    print_headline(out, cell, comparison);
    out.line(comparison.explanation ? where_text(*comparison.explanation)
                                    : "not explained: " + comparison.no_explanation,
             2);
    print_ranks(out, comparison);
  }
  return out.take();
}

} // namespace assay
