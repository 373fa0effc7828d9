#include <algorithm>

#include "core/text.h"
#include "experiments/analysis/wording.h"
#include "experiments/report/explain_wording.h"
#include "experiments/report/explanation_json.h"
#include "experiments/report/render_explain.h"

namespace assay {

namespace {

using nlohmann::ordered_json;

ordered_json interval_json(const std::optional<Interval>& value) {
  return value ? ordered_json::array({value->lower, value->upper}) : ordered_json(nullptr);
}

ordered_json stage_json(const StageDelta& value) {
  return {{"stage", to_string(value.stage)},
          {"baseline_ns", value.a_ns},
          {"candidate_ns", value.b_ns},
          {"delta_ns", value.delta_ns},
          {"interval_95", interval_json(value.interval)},
          {"clear", value.clear}};
}

ordered_json health_json(const TraceHealth& value) {
  ordered_json failed = ordered_json::array();
  for (const AuditRow& row : value.failed)
    failed.push_back({{"check", printable(row.check)},
                      {"value", row.value},
                      {"limit", row.limit},
                      {"detail", printable(row.detail)}});
  ordered_json out = {{"trace", printable(value.path)},
                      {"audit_passed", value.passed},
                      {"audit_failed", failed},
                      {"steps", value.steps},
                      {"traced_over_timed", nullptr}};
  if (value.traced_over_timed > 0) out["traced_over_timed"] = value.traced_over_timed;
  return out;
}

ordered_json row_json(const DiffRow& value) {
  return {{"name", printable(value.name)},
          {"short_name", printable(value.short_name)},
          {"class", value.kernel_class},
          {"stage", to_string(value.stage)},
          {"status", to_string(value.status)},
          {"calls_baseline", value.calls_a},
          {"calls_candidate", value.calls_b},
          {"baseline_ns", value.a_ns},
          {"candidate_ns", value.b_ns},
          {"delta_ns", value.delta_ns},
          {"interval_95", interval_json(value.interval)}};
}

ordered_json rows_json(const std::vector<DiffRow>& rows, std::size_t top) {
  ordered_json out = ordered_json::array();
  for (std::size_t i = 0; i < std::min(top, rows.size()); ++i) out.push_back(row_json(rows[i]));
  return out;
}

ordered_json closure_json(const Waterfall& value) {
  if (value.timed_a_ns <= 0 || value.pairs == 0) return nullptr;
  return {{"closed", value.closed},
          {"timed_baseline_ns", value.timed_a_ns},
          {"timed_delta_ns", value.timed_delta_ns},
          {"timed_interval_95", interval_json(value.timed_interval)},
          {"traced_delta_ns", value.traced_delta_ns()},
          {"residual_ns", value.residual_ns},
          {"residual_share", value.residual_share},
          {"allowed_share", value.allowed_share}};
}

ordered_json comparison_json(const Report& report, const ComparisonIndex& which, std::size_t top) {
  const CellReport& cell = report.cells[which.first];
  const Comparison& comparison = cell.comparisons[which.second];
  ordered_json out = {{"cell", printable(cell.cell.name)},
                      {"baseline", printable(comparison.a)},
                      {"candidate", printable(comparison.b)},
                      {"headline", headline(comparison.verdict).text},
                      {"time", nullptr},
                      {"explanation", explanation_json(comparison, top)},
                      {"no_explanation", printable(comparison.no_explanation)},
                      {"ranks", ranks_json(comparison)}};
  if (comparison.effect)
    out["time"] = {{"log_ratio", comparison.effect->theta.value},
                   {"interval_95", interval_json(comparison.effect->theta.at_95)}};
  return out;
}

} // namespace

ordered_json explanation_json(const Comparison& comparison, std::size_t top) {
  if (!comparison.explanation) return nullptr;
  const Explanation& value = *comparison.explanation;
  const Waterfall& waterfall = value.waterfall;
  ordered_json stages = ordered_json::array();
  for (const StageDelta& stage : waterfall.stages) stages.push_back(stage_json(stage));
  return {
      {"traced_as", value.traced_as},
      {"pairs", waterfall.pairs},
      {"baseline_ns", waterfall.a_ns},
      {"candidate_ns", waterfall.b_ns},
      {"interval_95", interval_json(waterfall.traced_interval)},
      {"unusable", printable(waterfall.unusable)},
      {"where_text", printable(where_text(value))},
      {"stages", stages},
      {"closure", closure_json(waterfall)},
      {"health", {{"baseline", health_json(waterfall.a)}, {"candidate", health_json(waterfall.b)}}},
      {"kernel_rows", value.kernels.size()},
      {"operator_rows", value.operators.size()},
      {"kernels", rows_json(value.kernels, top)},
      {"operators", rows_json(value.operators, top)}};
}

ordered_json ranks_json(const Comparison& comparison) {
  const auto side = [](const RankTime& time) {
    ordered_json out = {{"step_ns", time.step_ns}, {"traced", nullptr}};
    if (time.traced)
      out["traced"] = {{"step_ns", time.traced->step_ns}, {"exposed_ns", time.traced->exposed_ns}};
    return out;
  };
  ordered_json out = ordered_json::array();
  const std::size_t ranks = std::min(comparison.a_ranks.size(), comparison.b_ranks.size());
  for (std::size_t rank = 0; rank < ranks; ++rank)
    out.push_back({{"rank", rank},
                   {"baseline", side(comparison.a_ranks[rank])},
                   {"candidate", side(comparison.b_ranks[rank])}});
  return out;
}

std::string render_explain_traces_json(const Explanation& explanation,
                                       const std::vector<std::string>& origins,
                                       std::size_t top) {
  Comparison comparison;
  comparison.explanation = explanation;
  ordered_json traces = ordered_json::array();
  for (const std::string& origin : origins) traces.push_back(printable(origin));
  const ordered_json out = {{"schema_version", kReportSchema},
                            {"verdict", nullptr},
                            {"traces", traces},
                            {"explanation", explanation_json(comparison, top)}};
  return out.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string render_explain_json(const Report& report,
                                const std::vector<ComparisonIndex>& which,
                                std::size_t top) {
  ordered_json comparisons = ordered_json::array();
  for (const ComparisonIndex& one : which) comparisons.push_back(comparison_json(report, one, top));
  const ordered_json out = {{"schema_version", kReportSchema}, {"comparisons", comparisons}};
  return out.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

} // namespace assay
