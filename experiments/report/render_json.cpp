#include <map>
#include <nlohmann/json.hpp>

#include "core/ledger/calibration.h"
#include "core/text.h"
#include "experiments/analysis/calibration.h"
#include "experiments/analysis/report_lines.h"
#include "experiments/analysis/winner.h"
#include "experiments/analysis/wording.h"
#include "experiments/report/claim_json.h"
#include "experiments/report/explanation_json.h"
#include "experiments/report/loss_json.h"
#include "experiments/report/render.h"
#include "experiments/report/render_explain.h"
#include "experiments/report/section.h"

namespace assay {

namespace {

using nlohmann::ordered_json;

ordered_json number(double value) {
  return value;
} // dump() writes null for NaN and infinity
ordered_json text(const std::string& value) {
  return printable(value);
}

template <class T, class F> ordered_json maybe(const std::optional<T>& value, F convert) {
  return value ? convert(*value) : ordered_json(nullptr);
}

ordered_json interval(const Interval& value) {
  return ordered_json::array({number(value.lower), number(value.upper)});
}

ordered_json estimate_json(const Estimate& value) {
  return {{"log_ratio", number(value.value)},
          {"interval_95", maybe(value.at_95, interval)},
          {"interval_judged", maybe(value.judged, interval)},
          {"p", maybe(value.p, number)},
          {"by_launch", value.by_launch},
          {"change_text", effect_text(value)},
          {"interval_text", interval_text(value.at_95)}};
}

ordered_json launch_effect(const LaunchEffect& value) {
  return {{"launch_id", value.launch},
          {"launch_index", value.index},
          {"pairs", value.pairs},
          {"log_ratio", number(value.theta)},
          {"interval_95", maybe(value.interval, interval)},
          {"standard_error", maybe(value.error, number)},
          {"hodges_lehmann", number(value.hodges_lehmann)},
          {"sum_log_ratio", number(value.sum_ratio)}};
}

ordered_json spread(const LaunchSpread& value) {
  return {{"total_variance", value.total_variance},
          {"within_variance", value.within_variance},
          {"between_variance", value.between_variance}};
}

ordered_json effect(const Effect& value) {
  ordered_json launches = ordered_json::array();
  for (const LaunchEffect& launch : value.launches) launches.push_back(launch_effect(launch));
  return {{"time", estimate_json(value.theta)},
          {"total_time", estimate_json(value.total_time)},
          {"hodges_lehmann", number(value.hodges_lehmann)},
          {"baseline_unit_ns", number(value.a_ns)},
          {"candidate_unit_ns", number(value.b_ns)},
          {"launch_spread", maybe(value.spread, spread)},
          {"minimum_detectable_effect", maybe(value.mde, number)},
          {"launches_for_sesoi",
           maybe(value.launches_for_sesoi, [](int x) { return ordered_json(x); })},
          {"launches", launches}};
}

ordered_json memory(const MemoryEffect& value) {
  ordered_json parts = ordered_json::array();
  for (const MemoryPartEffect& part : value.parts)
    parts.push_back({{"phase", text(part.phase)},
                     {"module", text(part.module)},
                     {"baseline_bytes", number(part.a_bytes)},
                     {"candidate_bytes", number(part.b_bytes)}});
  return {{"launches", value.launches},
          {"baseline_bytes", number(value.a_bytes)},
          {"candidate_bytes", number(value.b_bytes)},
          {"exact", value.exact},
          {"noise", maybe(value.noise, number)},
          {"bytes", estimate_json(value.log_ratio)},
          {"baseline_highest_in", text(value.a_moment)},
          {"candidate_highest_in", text(value.b_moment)},
          {"parts", parts}};
}

ordered_json energy_json(const EnergyEffect& value) {
  return {{"rounds", value.log_ratio.by_launch.size()},
          {"seconds", number(value.seconds)},
          {"baseline_j", number(value.a_j)},
          {"candidate_j", number(value.b_j)},
          {"energy", estimate_json(value.log_ratio)}};
}

ordered_json time_to_loss_json(const TimeToLoss& value) {
  const bool timed = value.time.has_value(), reached = value.steps.has_value();
  const auto known = [](bool is, double x) { return is ? number(x) : ordered_json(nullptr); };
  return {{"target", number(value.target)},
          {"tokens_per_step",
           value.tokens_per_step > 0 ? ordered_json(value.tokens_per_step) : ordered_json(nullptr)},
          {"seeds", value.seeds},
          {"baseline_reached", value.a_reached},
          {"candidate_reached", value.b_reached},
          {"baseline_steps", known(reached, value.a_steps)},
          {"candidate_steps", known(reached, value.b_steps)},
          {"steps", maybe(value.steps, estimate_json)},
          {"baseline_seconds", known(timed, value.a_seconds)},
          {"candidate_seconds", known(timed, value.b_seconds)},
          {"time", maybe(value.time, estimate_json)}};
}

ordered_json loss_json(const LossTest& value) {
  ordered_json out = loss_test_json(value);
  out["log_ratio"] = maybe(value.log_ratio, estimate_json);
  return out;
}

ordered_json data_wait_json(const DataWait& value) {
  return {{"baseline_ns", number(value.a_ns)},
          {"candidate_ns", number(value.b_ns)},
          {"baseline_tokens_twice", number(value.a_twice)},
          {"candidate_tokens_twice", number(value.b_twice)}};
}

ordered_json end_to_end_json(const EndToEnd& value) {
  return {{"step_ns", number(value.step_ns)},
          {"every", value.every},
          {"time", estimate_json(value.log_ratio)}};
}

ordered_json pairs(const PairSet& value) {
  ordered_json excluded = ordered_json::array(), left_out = ordered_json::array();
  for (const LaunchPairs& launch : value.launches) {
    if (!launch.counts()) {
      const auto all = std::ssize(launch.pairs), left = std::ssize(launch.log_ratios(false));
      left_out.push_back({{"launch_id", launch.launch},
                          {"launch_index", launch.index},
                          {"pairs", all},
                          {"disturbed", all - left}});
      continue;
    }
    for (const Pair& pair : launch.pairs)
      if (!pair.excluded.empty())
        excluded.push_back({{"launch_id", launch.launch},
                            {"launch_index", launch.index},
                            {"round", pair.round},
                            {"reason", pair.excluded}});
  }
  return {{"total", value.pairs},
          {"excluded", value.excluded},
          {"disturbed_baseline", value.disturbed_a},
          {"disturbed_candidate", value.disturbed_b},
          {"imbalance_p", number(value.imbalance_p)},
          {"skipped_steps_baseline", value.skipped_a},
          {"skipped_steps_candidate", value.skipped_b},
          {"excluded_pairs", excluded},
          {"launches_left_out", left_out}};
}

ordered_json evidence(const Evidence& value, const Comparison& comparison) {
  ordered_json gates = ordered_json::array();
  for (const GateRow& gate : value.gates)
    gates.push_back({{"variant",
                      text(gate.variant == comparison.a_id   ? comparison.a
                           : gate.variant == comparison.b_id ? comparison.b
                                                             : "")},
                     {"name", text(gate.name)},
                     {"passed", gate.passed},
                     {"value", number(gate.value)},
                     {"bound", number(gate.bound)},
                     {"detail", text(gate.detail)}});
  return {{"engaged", text(value.engaged)},
          {"ran", text(value.ran)},
          {"same_work", value.same_work},
          {"same_work_proof", text(value.same_work_proof)},
          {"quality_reason", text(value.quality_reason.text)},
          {"quality_reason_code", to_string(value.quality_reason.code)},
          {"gates", gates}};
}

ordered_json verdict(const Verdict& value) {
  ordered_json tags = ordered_json::array(), reasons = ordered_json::array(),
               codes = ordered_json::array();
  for (const Tag tag : value.tags) tags.push_back(to_string(tag));
  for (const Reason& reason : value.reasons) {
    reasons.push_back(text(reason.text));
    codes.push_back(to_string(reason.code));
  }
  const Headline head = headline(value);
  return {{"headline", head.text},
          {"tone", to_string(head.tone)},
          {"validity", to_string(value.validity)},
          {"speed", to_string(value.speed)},
          {"quality", to_string(value.quality)},
          {"claim", to_string(value.claim)},
          {"tags", tags},
          {"reasons", reasons},
          {"reason_codes", codes}};
}

ordered_json comparison_json(const Comparison& value) {
  return {{"baseline", text(value.a)},
          {"candidate", text(value.b)},
          {"against_reference", value.against_reference},
          {"verdict", verdict(value.verdict)},
          {"effect", maybe(value.effect, effect)},
          {"effect_all_pairs", maybe(value.effect_all, effect)},
          {"device_time", maybe(value.device, estimate_json)},
          {"position", maybe(value.position, estimate_json)},
          {"end_to_end", maybe(value.end_to_end, end_to_end_json)},
          {"data_wait", maybe(value.data_wait, data_wait_json)},
          {"memory", maybe(value.memory, memory)},
          {"energy", maybe(value.energy, energy_json)},
          {"loss", maybe(value.loss, loss_json)},
          {"time_to_loss", maybe(value.time_to_loss, time_to_loss_json)},
          {"pairs", pairs(value.pairs)},
          {"evidence", evidence(value.evidence, value)},
          {"explanation", explanation_json(value, kEveryRow)},
          {"no_explanation", text(value.no_explanation)},
          {"ranks", ranks_json(value)}};
}

ordered_json contrast_json(const Contrast& value) {
  ordered_json terms = ordered_json::array();
  for (const ContrastTerm& term : value.row.terms)
    terms.push_back({{"baseline", text(term.from)},
                     {"candidate", text(term.to)},
                     {"weight", number(term.weight)}});
  ordered_json out = {{"name", text(value.row.name)},
                      {"kind", text(value.row.kind)},
                      {"state", to_string(value.state)},
                      {"reason", text(value.reason.text)},
                      {"reason_code", to_string(value.reason.code)},
                      {"effect", maybe(value.effect, effect)},
                      {"terms", terms}};
  if (value.effect)
    for (const char* key : {"baseline_unit_ns", "candidate_unit_ns", "launch_spread"})
      out["effect"].erase(key);
  return out;
}

ordered_json peaks_json(const MeasuredPeaks& value) {
  return {{"compute_flops_per_second", number(value.flops_per_second)},
          {"fp32_flops_per_second", number(value.fp32_flops_per_second)},
          {"fp8_flops_per_second",
           value.fp8_flops_per_second > 0 ? number(value.fp8_flops_per_second) : nullptr},
          {"bytes_per_second", number(value.bytes_per_second)},
          {"launch_seconds", number(value.launch_seconds)}};
}

ordered_json roofline_json(const Roofline& value) {
  return {{"seconds", number(value.seconds)},
          {"compute_seconds", number(value.compute_seconds)},
          {"bytes_seconds", number(value.bytes_seconds)},
          {"launch_seconds", number(value.launch_seconds)}};
}

ordered_json speed_json(const VariantSpeed& value) {
  return {
      {"variant", text(value.variant)},
      {"tokens_per_second", number(value.tokens_per_second)},
      {"padding_share", number(value.padding_share)},
      {"step_seconds", number(value.step_seconds)},
      {"busy_seconds", maybe(value.busy_seconds, number)},
      {"model_flops", number(value.flops)},
      {"mfu",
       maybe(value.peaks,
             [&](const MeasuredPeaks& peaks) {
               return number(model_flops_utilization(
                   value.flops, value.step_seconds, peaks.flops_per_second));
             })},
      {"kernel_launches", maybe(value.kernels, [](std::int64_t x) { return ordered_json(x); })},
      {"kernel_launches_traced", value.kernels_traced},
      {"peaks", maybe(value.peaks, peaks_json)},
      {"at_measured_peaks", maybe(value.roofline, roofline_json)},
      {"limited_by", maybe(value.bound, [](Bottleneck x) { return ordered_json(to_string(x)); })},
      {"unknown", text(value.unknown)}};
}

ordered_json cell_json(const CellReport& value) {
  ordered_json comparisons = ordered_json::array(), missing = ordered_json::array();
  for (const Comparison& comparison : value.comparisons)
    comparisons.push_back(comparison_json(comparison));
  for (const std::string& item : value.missing) missing.push_back(text(item));
  ordered_json contrasts = ordered_json::array();
  for (const Contrast& contrast : value.contrasts) contrasts.push_back(contrast_json(contrast));
  ordered_json speeds = ordered_json::array();
  for (const VariantSpeed& speed : value.speed) speeds.push_back(speed_json(speed));
  ordered_json out = {{"name", text(value.cell.name)},
                      {"optimization", text(value.cell.optimization)},
                      {"summary", text(value.summary)},
                      {"equivalence", text(value.equivalence)},
                      {"unit", text(value.cell.unit)},
                      {"turns", value.cell.turns},
                      {"apart", value.cell.apart},
                      {"rounds", value.cell.rounds},
                      {"visit_steps", value.cell.visit_steps},
                      {"discard_steps", value.cell.discard_steps},
                      {"config", ordered_json::parse(value.cell.config_json, nullptr, false)},
                      {"launches_counted", value.counted_launches},
                      {"launches_planned", value.planned_launches},
                      {"looks", value.cell.looks},
                      {"looks_taken", value.looks.taken},
                      {"judged_alpha", value.judged_alpha},
                      {"launches_disturbed", value.disturbed_launches},
                      {"launches_measured_again", value.superseded_launches},
                      {"attempts_replaced", value.replaced_attempts},
                      {"redone_by_name", value.redone_by_name},
                      {"launches_set_aside", value.launches_set_aside},
                      {"launches_partial_counted", value.partial.counted},
                      {"launches_partial_left_out", value.partial.left_out},
                      {"loss_launches_counted", value.loss_launches},
                      {"loss_launches_planned", value.cell.loss_seeds},
                      {"loss_curves", loss_curves_json(value)},
                      {"control", nullptr},
                      {"comparisons", comparisons},
                      {"design", text(value.design)},
                      {"contrasts", contrasts},
                      {"speed", speeds},
                      {"missing", missing}};
  if (out["config"].is_discarded()) out["config"] = nullptr;
  if (value.control)
    out["control"] = {{"alarm", value.control->alarm},
                      {"effect", maybe(value.control->comparison.effect, effect)},
                      {"pairs", pairs(value.control->comparison.pairs)}};
  return out;
}

void add_comparison_sections(ordered_json& cells, const Report& report) {
  for (std::size_t cell = 0; cell < report.cells.size(); ++cell)
    for (std::size_t i = 0; i < report.cells[cell].comparisons.size(); ++i) {
      ordered_json& sections = cells[cell]["comparisons"][i]["sections"] = ordered_json::array();
      for (const Section& section : comparison_sections(report, cell, i))
        sections.push_back(to_json(section));
    }
}

ordered_json cell_name(const Report& report, std::int64_t id) {
  for (const CellReport& cell : report.cells)
    if (cell.cell.id == id) return text(cell.cell.name);
  return nullptr;
}

ordered_json identity(const Identity& value) {
  return {{"build", text(value.build)},
          {"libtorch", text(value.libtorch)},
          {"cuda", text(value.cuda)},
          {"driver", text(value.driver)},
          {"gpu", text(value.gpu)},
          {"gpu_uuid", text(value.gpu_uuid)},
          {"host", text(value.host)},
          {"boot", text(value.boot)},
          {"cpu", text(value.cpu)},
          {"kernel", text(value.kernel)},
          {"cores", value.cores},
          {"threads", value.threads},
          {"environment", text(value.environment)}};
}

ordered_json launch_json(const LaunchSummary& value) {
  const LaunchRow& row = value.row;
  return {{"id", row.id},
          {"cell", text(value.cell)},
          {"kind", to_string(row.kind)},
          {"index", row.index},
          {"attempt", row.attempt},
          {"state", value.state()},
          {"reason", text(row.reason)},
          {"started_utc", text(row.started_utc)},
          {"ended_utc", text(row.ended_utc)},
          {"build_order", text(row.build_order)},
          {"rounds", value.rounds},
          {"warmup_rounds", value.warmup_rounds},
          {"rounds_planned", row.rounds_planned},
          {"steady", row.steady},
          {"identity", identity(row.identity)}};
}

ordered_json spec_json(const SpecRow& value) {
  return {{"hash", text(value.hash)},
          {"name", text(value.name)},
          {"seed", value.seed},
          {"command", text(value.command)},
          {"created_utc", text(value.created_utc)},
          {"launches", value.launches},
          {"alpha", value.alpha},
          {"sesoi", value.sesoi},
          {"power", value.power},
          {"matrix_toml", text(value.matrix_toml)}};
}

ordered_json winner_json(const Report& report, const Winner& winner) {
  const CellReport& cell = report.cells[winner.cell];
  return {{"cell", text(cell.cell.name)},
          {"baseline", text(cell.comparisons[winner.comparison].a)},
          {"candidate", text(cell.comparisons[winner.comparison].b)},
          {"among", winner.among}};
}

ordered_json confirmation_json(const Confirmation& value) {
  return {{"cell", text(value.cell)},
          {"baseline", text(value.a)},
          {"candidate", text(value.b)},
          {"verdict", verdict(value.verdict)},
          {"effect", maybe(value.effect, effect)}};
}

ordered_json calibration_json(const CalibrationRow& row) {
  ordered_json out = {{"state", to_string(calibration_state(row))},
                      {"text", text(calibration_text(row))}};
  for_each_calibration_field(row, [&](const char* name, const auto& value) {
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string>)
      out[name] = text(value);
    else
      out[name] = value;
  });
  return out;
}

} // namespace

int explained_comparisons(const Report& report) {
  int count = 0;
  for (const CellReport& cell : report.cells)
    for (const Comparison& comparison : cell.comparisons)
      count += comparison.explanation.has_value();
  return count;
}

std::string render_memory_json(const Report& report, const std::vector<ComparisonIndex>& which) {
  ordered_json comparisons = ordered_json::array();
  for (const auto& [cell, index] : which) {
    const Comparison& comparison = report.cells[cell].comparisons[index];
    comparisons.push_back({{"cell", text(report.cells[cell].cell.name)},
                           {"baseline", text(comparison.a)},
                           {"candidate", text(comparison.b)},
                           {"memory", maybe(comparison.memory, memory)}});
  }
  return ordered_json{{"schema_version", kReportSchema}, {"comparisons", comparisons}}.dump(2) +
         "\n";
}

std::string render_json(const Report& report) {
  ordered_json out = {{"schema_version", kReportSchema},
                      {"complete", report.complete()},
                      {"explained", explained_comparisons(report)},
                      {"summary", summary_text(report)},
                      {"spec", spec_json(report.spec)},
                      {"judgements", report.judgements},
                      {"judged_alpha", report.judged_alpha}};
  out["winner"] =
      maybe(report.winner, [&](const Winner& winner) { return winner_json(report, winner); });
  out["confirmation"] = maybe(report.confirmation, confirmation_json);
  out["confirmation_unread"] = text(report.confirmation_unread);
  out["calibration"] = maybe(report.calibration, calibration_json);
  const auto add = [&](const char* key, const auto& items, auto convert) {
    ordered_json list = ordered_json::array();
    for (const auto& item : items) list.push_back(convert(item));
    out[key] = std::move(list);
  };
  add("cells", report.cells, cell_json);
  add("claims", report.claims, [&](const ClaimResult& claim) {
    return claim_json(claim, claim.cell ? report.cells[*claim.cell].cell.name : "");
  });
  add("launches", report.launches, launch_json);
  add("alarms", report.alarms, [&](const Alarm& alarm) {
    return ordered_json{
        {"code", to_string(alarm.code)},
        {"cell", cell_name(report, alarm.cell)},
        {"comparison", alarm.comparison.empty() ? ordered_json(nullptr) : text(alarm.comparison)},
        {"text", text(alarm.text)}};
  });
  add("notes", report.notes, [](const NoteRow& note) {
    return ordered_json{{"cell", note.cell.empty() ? ordered_json(nullptr) : text(note.cell)},
                        {"text", text(note.text)}};
  });
  add("shape_warnings", report.shape_warnings, text);
  add("source_errors", report.source_errors, text);
  add("missing", report.missing, text);
  std::map<std::int64_t, int> indices;
  for (const LaunchSummary& launch : report.launches) indices[launch.row.id] = launch.row.index;
  add("events", report.events, [&](const EventRow& event) {
    const auto index = indices.find(event.launch);
    return ordered_json{
        {"launch_id", event.launch},
        {"launch_index",
         index == indices.end() ? ordered_json(nullptr) : ordered_json(index->second)},
        {"round", event.round},
        {"utc", text(event.utc)},
        {"kind", text(event.kind)},
        {"detail", text(event.detail)}};
  });
  add_comparison_sections(out["cells"], report);
  out["run"] = to_json(run_section(report));
  add("sections", report_sections(report), [](const Section& section) { return to_json(section); });
  return out.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

} // namespace assay
