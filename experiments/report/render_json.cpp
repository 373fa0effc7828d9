#include <map>
#include <nlohmann/json.hpp>

#include "core/ledger/calibration.h"
#include "core/text.h"
#include "experiments/analysis/calibration.h"
#include "experiments/analysis/report_lines.h"
#include "experiments/analysis/winner.h"
#include "experiments/analysis/wording.h"
#include "experiments/report/claims/claim_json.h"
#include "experiments/report/effect_json.h"
#include "experiments/report/explanation_json.h"
#include "experiments/report/loss_json.h"
#include "experiments/report/render.h"
#include "experiments/report/render_explain.h"
#include "experiments/report/section.h"

namespace assay {

namespace {

using nlohmann::ordered_json;

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
          {"imbalance_p", number_json(value.imbalance_p)},
          {"skipped_steps_baseline", value.skipped_a},
          {"skipped_steps_candidate", value.skipped_b},
          {"excluded_pairs", excluded},
          {"launches_left_out", left_out}};
}

ordered_json evidence(const Evidence& value, const Comparison& comparison) {
  ordered_json gates = ordered_json::array();
  for (const GateRow& gate : value.gates)
    gates.push_back({{"variant",
                      text_json(gate.variant == comparison.a_id   ? comparison.a
                                : gate.variant == comparison.b_id ? comparison.b
                                                                  : "")},
                     {"name", text_json(gate.name)},
                     {"passed", gate.passed},
                     {"value", number_json(gate.value)},
                     {"bound", number_json(gate.bound)},
                     {"detail", text_json(gate.detail)}});
  return {{"engaged", text_json(value.engaged)},
          {"ran", text_json(value.ran)},
          {"same_work", value.same_work},
          {"same_work_proof", text_json(value.same_work_proof)},
          {"quality_reason", text_json(value.quality_reason.text)},
          {"quality_reason_code", to_string(value.quality_reason.code)},
          {"gates", gates}};
}

ordered_json verdict(const Verdict& value) {
  ordered_json tags = ordered_json::array(), reasons = ordered_json::array(),
               codes = ordered_json::array();
  for (const Tag tag : value.tags) tags.push_back(to_string(tag));
  for (const Reason& reason : value.reasons) {
    reasons.push_back(text_json(reason.text));
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
  return {{"baseline", text_json(value.a)},
          {"candidate", text_json(value.b)},
          {"against_reference", value.against_reference},
          {"verdict", verdict(value.verdict)},
          {"effect", or_null(value.effect, effect_json)},
          {"effect_all_pairs", or_null(value.effect_all, effect_json)},
          {"device_time", or_null(value.device, estimate_json)},
          {"position", or_null(value.position, estimate_json)},
          {"end_to_end", or_null(value.end_to_end, end_to_end_json)},
          {"scaling", scaling_json(value)},
          {"data_wait", or_null(value.data_wait, data_wait_json)},
          {"first_step",
           {{"baseline", or_null(value.a_first, first_step_json)},
            {"candidate", or_null(value.b_first, first_step_json)}}},
          {"memory", or_null(value.memory, memory_json)},
          {"energy", or_null(value.energy, energy_json)},
          {"loss", or_null(value.loss, loss_json)},
          {"time_to_loss", or_null(value.time_to_loss, time_to_loss_json)},
          {"pairs", pairs(value.pairs)},
          {"evidence", evidence(value.evidence, value)},
          {"explanation", explanation_json(value, kEveryRow)},
          {"no_explanation", text_json(value.no_explanation)},
          {"ranks", ranks_json(value)}};
}

ordered_json contrast_json(const Contrast& value) {
  ordered_json terms = ordered_json::array();
  for (const ContrastTerm& term : value.row.terms)
    terms.push_back({{"baseline", text_json(term.from)},
                     {"candidate", text_json(term.to)},
                     {"weight", number_json(term.weight)}});
  ordered_json out = {{"name", text_json(value.row.name)},
                      {"kind", text_json(value.row.kind)},
                      {"state", to_string(value.state)},
                      {"reason", text_json(value.reason.text)},
                      {"reason_code", to_string(value.reason.code)},
                      {"effect", or_null(value.effect, effect_json)},
                      {"terms", terms}};
  if (value.effect)
    for (const char* key : {"baseline_unit_ns", "candidate_unit_ns", "launch_spread"})
      out["effect"].erase(key);
  return out;
}

ordered_json peaks_json(const MeasuredPeaks& value) {
  return {{"compute_flops_per_second", number_json(value.flops_per_second)},
          {"fp32_flops_per_second", number_json(value.fp32_flops_per_second)},
          {"fp8_flops_per_second",
           value.fp8_flops_per_second > 0 ? number_json(value.fp8_flops_per_second) : nullptr},
          {"bytes_per_second", number_json(value.bytes_per_second)},
          {"launch_seconds", number_json(value.launch_seconds)}};
}

ordered_json roofline_json(const Roofline& value) {
  return {{"seconds", number_json(value.seconds)},
          {"compute_seconds", number_json(value.compute_seconds)},
          {"bytes_seconds", number_json(value.bytes_seconds)},
          {"launch_seconds", number_json(value.launch_seconds)}};
}

ordered_json speed_json(const VariantSpeed& value) {
  return {
      {"variant", text_json(value.variant)},
      {"tokens_per_second", number_json(value.tokens_per_second)},
      {"padding_share", number_json(value.padding_share)},
      {"step_seconds", number_json(value.step_seconds)},
      {"busy_seconds", or_null(value.busy_seconds, number_json)},
      {"model_flops", number_json(value.flops)},
      {"mfu",
       or_null(value.peaks,
               [&](const MeasuredPeaks& peaks) {
                 return number_json(model_flops_utilization(
                     value.flops, value.step_seconds, peaks.flops_per_second));
               })},
      {"kernel_launches", or_null(value.kernels, [](std::int64_t x) { return ordered_json(x); })},
      {"kernel_launches_traced", value.kernels_traced},
      {"peaks", or_null(value.peaks, peaks_json)},
      {"at_measured_peaks", or_null(value.roofline, roofline_json)},
      {"limited_by", or_null(value.bound, [](Bottleneck x) { return ordered_json(to_string(x)); })},
      {"unknown", text_json(value.unknown)}};
}

ordered_json cell_json(const CellReport& value) {
  ordered_json comparisons = ordered_json::array(), missing = ordered_json::array();
  for (const Comparison& comparison : value.comparisons)
    comparisons.push_back(comparison_json(comparison));
  for (const std::string& item : value.missing) missing.push_back(text_json(item));
  ordered_json contrasts = ordered_json::array();
  for (const Contrast& contrast : value.contrasts) contrasts.push_back(contrast_json(contrast));
  ordered_json speeds = ordered_json::array();
  for (const VariantSpeed& speed : value.speed) speeds.push_back(speed_json(speed));
  ordered_json out = {{"name", text_json(value.cell.name)},
                      {"optimization", text_json(value.cell.optimization)},
                      {"summary", text_json(value.summary)},
                      {"equivalence", text_json(value.equivalence)},
                      {"unit", text_json(value.cell.unit)},
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
                      {"design", text_json(value.design)},
                      {"contrasts", contrasts},
                      {"speed", speeds},
                      {"missing", missing}};
  if (out["config"].is_discarded()) out["config"] = nullptr;
  if (value.control)
    out["control"] = {{"alarm", value.control->alarm},
                      {"effect", or_null(value.control->comparison.effect, effect_json)},
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
    if (cell.cell.id == id) return text_json(cell.cell.name);
  return nullptr;
}

ordered_json identity(const Identity& value) {
  return {{"build", text_json(value.build)},
          {"libtorch", text_json(value.libtorch)},
          {"cuda", text_json(value.cuda)},
          {"driver", text_json(value.driver)},
          {"gpu", text_json(value.gpu)},
          {"gpu_uuid", text_json(value.gpu_uuid)},
          {"host", text_json(value.host)},
          {"boot", text_json(value.boot)},
          {"cpu", text_json(value.cpu)},
          {"kernel", text_json(value.kernel)},
          {"cores", value.cores},
          {"threads", value.threads},
          {"environment", text_json(value.environment)}};
}

ordered_json launch_json(const LaunchSummary& value) {
  const LaunchRow& row = value.row;
  return {{"id", row.id},
          {"cell", text_json(value.cell)},
          {"kind", to_string(row.kind)},
          {"index", row.index},
          {"attempt", row.attempt},
          {"state", value.state()},
          {"reason", text_json(row.reason)},
          {"started_utc", text_json(row.started_utc)},
          {"ended_utc", text_json(row.ended_utc)},
          {"build_order", text_json(row.build_order)},
          {"rounds", value.rounds},
          {"warmup_rounds", value.warmup_rounds},
          {"rounds_planned", row.rounds_planned},
          {"steady", row.steady},
          {"identity", identity(row.identity)}};
}

ordered_json spec_json(const SpecRow& value) {
  return {{"hash", text_json(value.hash)},
          {"name", text_json(value.name)},
          {"seed", value.seed},
          {"command", text_json(value.command)},
          {"created_utc", text_json(value.created_utc)},
          {"launches", value.launches},
          {"alpha", value.alpha},
          {"sesoi", value.sesoi},
          {"power", value.power},
          {"matrix_toml", text_json(value.matrix_toml)}};
}

ordered_json winner_json(const Report& report, const Winner& winner) {
  const CellReport& cell = report.cells[winner.cell];
  return {{"cell", text_json(cell.cell.name)},
          {"baseline", text_json(cell.comparisons[winner.comparison].a)},
          {"candidate", text_json(cell.comparisons[winner.comparison].b)},
          {"among", winner.among}};
}

ordered_json confirmation_json(const Confirmation& value) {
  return {{"cell", text_json(value.cell)},
          {"baseline", text_json(value.a)},
          {"candidate", text_json(value.b)},
          {"verdict", verdict(value.verdict)},
          {"effect", or_null(value.effect, effect_json)},
          {"measured_launches", value.measured_launches},
          {"build", text_json(value.build)},
          {"first_utc", text_json(value.first_utc)}};
}

ordered_json calibration_json(const CalibrationRow& row) {
  ordered_json out = {{"state", to_string(calibration_state(row))},
                      {"text", text_json(calibration_text(row))}};
  for_each_calibration_field(row, [&](const char* name, const auto& value) {
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string>)
      out[name] = text_json(value);
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
    comparisons.push_back({{"cell", text_json(report.cells[cell].cell.name)},
                           {"baseline", text_json(comparison.a)},
                           {"candidate", text_json(comparison.b)},
                           {"memory", or_null(comparison.memory, memory_json)}});
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
      or_null(report.winner, [&](const Winner& winner) { return winner_json(report, winner); });
  out["confirmation"] = or_null(report.confirmation, confirmation_json);
  out["confirmation_unread"] = text_json(report.confirmation_unread);
  out["calibration"] = or_null(report.calibration, calibration_json);
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
        {"comparison",
         alarm.comparison.empty() ? ordered_json(nullptr) : text_json(alarm.comparison)},
        {"text", text_json(alarm.text)}};
  });
  add("notes", report.notes, [](const NoteRow& note) {
    return ordered_json{{"cell", note.cell.empty() ? ordered_json(nullptr) : text_json(note.cell)},
                        {"text", text_json(note.text)}};
  });
  add("shape_warnings", report.shape_warnings, text_json);
  add("source_errors", report.source_errors, text_json);
  add("missing", report.missing, text_json);
  std::map<std::int64_t, int> indices;
  for (const LaunchSummary& launch : report.launches) indices[launch.row.id] = launch.row.index;
  add("events", report.events, [&](const EventRow& event) {
    const auto index = indices.find(event.launch);
    return ordered_json{
        {"launch_id", event.launch},
        {"launch_index",
         index == indices.end() ? ordered_json(nullptr) : ordered_json(index->second)},
        {"round", event.round},
        {"utc", text_json(event.utc)},
        {"kind", text_json(event.kind)},
        {"detail", text_json(event.detail)}};
  });
  add_comparison_sections(out["cells"], report);
  out["run"] = to_json(run_section(report));
  add("sections", report_sections(report), [](const Section& section) { return to_json(section); });
  return out.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

} // namespace assay
