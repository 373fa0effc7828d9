#include "core/text.h"
#include "experiments/analysis/wording.h"
#include "experiments/report/explain_wording.h"
#include "experiments/report/render_explain.h"
#include "experiments/report/section.h"
#include "experiments/report/text_sections.h"

namespace assay {

namespace {

void print_headline(TextWriter& out,
                    const Report& report,
                    const CellReport& cell,
                    const Comparison& comparison) {
  out.line(fmt::format("{}: {}: {}",
                       cell.cell.name,
                       comparison_text(comparison),
                       headline(comparison.verdict).text));
  if (comparison.effect)
    out.line(fmt::format(
                 "{} {}, timed: {}{}",
                 unit_text(cell.cell),
                 unit_time_text(*comparison.effect),
                 judged_text(comparison.effect->theta),
                 comparison.effect->launches.size() < 2
                     ? "" // it has no interval
                     : fmt::format(" (interval of the verdict: {})", interval_level_text(report))),
             2);
}

void print_ranks(TextWriter& out, const Comparison& comparison) {
  for (const std::string& text : {ranks_text(comparison), collectives_text(comparison)})
    if (!text.empty()) out.line(text, 2);
}

void print_titled(TextWriter& out, const Section& section) {
  if (section.rows.empty()) return;
  out.raw("");
  out.line(section.title);
  print_section(out, section);
}

} // namespace

std::string render_explain_table(const Report& report,
                                 const ComparisonIndex& which,
                                 std::size_t top,
                                 const TableStyle& style) {
  const CellReport& cell = report.cells[which.first];
  const Comparison& comparison = cell.comparisons[which.second];
  TextWriter out(style);
  print_headline(out, report, cell, comparison);
  if (!comparison.explanation) {
    out.line("no breakdown: " + comparison.no_explanation, 2);
    return out.take();
  }
  const Waterfall& waterfall = comparison.explanation->waterfall;
  if (!waterfall.unusable.empty())
    out.line("do not rely on these traces: " + waterfall.unusable, 2);
  out.line(traced_pairs_text(*comparison.explanation), 2);
  print_titled(out, stages_section(*comparison.explanation));
  out.line(closure_text(waterfall), 2);
  print_ranks(out, comparison);
  print_titled(out, kernels_section(*comparison.explanation, top));
  print_titled(out, operators_section(*comparison.explanation, top));
  out.raw("");
  out.line(audit_text(waterfall), 2);
  for (const ClaimResult* claim : claims_of(report, which.first, which.second))
    if (!claim->claim.stages.empty())
      out.line(fmt::format("claim {}, expected in {}: {}{}",
                           claim->claim.id,
                           claimed_stages_text(claim->claim),
                           claim_state_text(*claim),
                           claim->reason.empty() ? "" : "; " + claim->reason.text),
               2);
  return out.take();
}

std::string render_explain_traces(const Explanation& explanation,
                                  const std::vector<std::string>& origins,
                                  std::size_t top,
                                  const TableStyle& style) {
  const Waterfall& waterfall = explanation.waterfall;
  const TimeScale scale = scale_of(waterfall);
  TextWriter out(style);
  for (const std::string& origin : origins) out.line(origin);
  out.line(fmt::format("one trace a side, so no verdict; a step takes {} -> {} {}: {} {}",
                       time_text(waterfall.a_ns, scale),
                       time_text(waterfall.b_ns, scale),
                       scale.unit,
                       difference_text(waterfall.traced_delta_ns(), scale),
                       difference_interval_text(waterfall.traced_interval, scale)));
  if (!waterfall.unusable.empty())
    out.line("do not rely on these traces: " + waterfall.unusable, 2);
  out.line(traced_pairs_text(explanation), 2);
  print_titled(out, stages_section(explanation));
  print_titled(out, kernels_section(explanation, top));
  print_titled(out, operators_section(explanation, top));
  return out.take();
}

std::string render_explain_memory(const Report& report,
                                  const ComparisonIndex& which,
                                  std::size_t top,
                                  const TableStyle& style) {
  const CellReport& cell = report.cells[which.first];
  const Comparison& comparison = cell.comparisons[which.second];
  TextWriter out(style);
  out.line(fmt::format("{}: {}", cell.cell.name, comparison_text(comparison)));
  if (!comparison.memory) {
    out.line("peak memory was not measured", 2);
    return out.take();
  }
  const MemoryEffect& memory = *comparison.memory;
  out.line(fmt::format("peak memory {} -> {} ({}){}",
                       human_bytes(memory.a_bytes),
                       human_bytes(memory.b_bytes),
                       memory_text(memory),
                       memory.parts.empty()
                           ? "; the build that measured it did not record what its bytes are: "
                             "measure again to see it"
                           : ""),
           2);
  print_titled(out, memory_phases_section(memory));
  print_titled(out, memory_modules_section(memory, top));
  return out.take();
}

std::string render_explain_summary(const Report& report,
                                   const std::vector<ComparisonIndex>& which,
                                   const TableStyle& style) {
  TextWriter out(style);
  for (const ComparisonIndex& one : which) {
    const CellReport& cell = report.cells[one.first];
    const Comparison& comparison = cell.comparisons[one.second];
    if (!comparison.explanation && comparison.a_ranks.empty()) continue;
    print_headline(out, report, cell, comparison);
    if (comparison.explanation) out.line(where_text(*comparison.explanation), 2);
    print_ranks(out, comparison);
  }
  for (const std::string& note : no_breakdown_notes(report, which)) out.line(note);
  return out.take();
}

} // namespace assay
