#include "experiments/report/claims/claim_sheet.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "core/text.h"
#include "experiments/analysis/wording.h"
#include "experiments/report/claims/claim_json.h"
#include "experiments/report/section.h"
#include "experiments/report/text_layout.h"

namespace assay {

namespace {

using nlohmann::ordered_json;

constexpr std::size_t kIndent = 2;

// Claims that earlier builds named after the section of their source, and their names of today.
constexpr std::pair<std::string_view, std::string_view> kRenamed[] = {
    {"grad-scaler-memory", "fp8-memory"},
    {"grad-scaler-speed", "fp8-throughput"},
    {"grad-scaler-report-memory", "fp8-report-memory"},
    {"grad-scaler-report-speed", "fp8-report-throughput"}};

std::string_view id_today(std::string_view id) {
  for (const auto& [then, now] : kRenamed)
    if (id == then) return now;
  return id;
}

// Board or processor of the launches of a cell that count.
std::string machine_of(const Report& report, const std::string& cell) {
  for (const LaunchSummary& launch : report.launches)
    if (launch.cell == cell && is_counted(launch.row))
      return launch.row.identity.gpu.empty() ? launch.row.identity.cpu : launch.row.identity.gpu;
  return "";
}

std::string board_of(const Report& report, const std::string& cell) { // "": a CPU
  for (const LaunchSummary& launch : report.launches)
    if (launch.cell == cell && is_counted(launch.row)) return launch.row.identity.gpu;
  return "";
}

SheetEntry& entry_of(std::vector<SheetEntry>& sheet, const ClaimRow& claim) {
  const std::string_view id = id_today(claim.id);
  const auto found =
      std::ranges::find_if(sheet, [&](const SheetEntry& x) { return x.claim.id == id; });
  if (found != sheet.end()) return *found;
  sheet.push_back({claim, {}, ""});
  return sheet.back();
}

// `ema_memory` of older ledgers is the share of these phases.
ClaimRow spelled_as_today(ClaimRow claim) {
  if (claim.metric != "ema_memory") return claim;
  claim.metric = "peak_memory";
  claim.of = "weights,ema,ema_swap";
  return claim;
}

// What is not in `planned`, the claim of a run, as it is in `now`, as a claims file
// spells it. Errors of the source and `unmet` are about the build.
std::vector<std::string> changed_keys(const ClaimRow& planned, const ClaimRow& now) {
  const ClaimRow then = spelled_as_today(planned);
  std::vector<std::string> keys;
  const auto differs = [&](const char* key, bool different) {
    if (different) keys.emplace_back(key);
  };
  differs("optimization", then.optimization != now.optimization && !names_keys(now));
  differs("from", then.from != now.from);
  differs("to", then.to != now.to);
  differs("metric", then.metric != now.metric);
  differs("of", then.of != now.of);
  differs("gain", then.lo != now.lo || then.hi != now.hi);
  differs("requires", then.requires_json != now.requires_json);
  differs("stages", then.stages != now.stages);
  differs("conditions", then.conditions != now.conditions);
  differs("text", then.text != now.text);
  differs("source", then.source != now.source);
  return keys;
}

// No run can test it by now; another comparison, another measure, or a cell that no longer meets
// the conditions.
bool is_superseded(const std::vector<std::string>& changed,
                   const ClaimRow& now,
                   const std::string& config_json,
                   const std::string& gpu,
                   double padding_share) {
  if (!now.unmet.empty()) return true;
  return std::any_of(changed.begin(), changed.end(), [&](const std::string& key) {
    const bool other =
        key == "optimization" || key == "from" || key == "to" || key == "metric" || key == "of";
    return other || (key == "requires" && (!unmet_conditions(now, config_json, gpu).empty() ||
                                           !unmet_padding(now, padding_share).empty()));
  });
}

bool is_testable(const ClaimRow& claim) { // by a run of this build
  return claim.unmet.empty() && claim.metric != kSetting;
}

bool is_tested(const SheetEntry& entry) {
  return std::any_of(entry.results.begin(), entry.results.end(), [](const SheetResult& result) {
    return !result.superseded;
  });
}

// The first cell that compares the claim's levels, as "directory, cell name", or "".
std::string compared_in(const ClaimRow& claim, const std::vector<SheetSource>& sources) {
  for (const SheetSource& source : sources)
    for (const CellReport& cell : source.report.cells)
      for (const Comparison& comparison : cell.comparisons)
        if (cell.cell.optimization == claim.optimization && comparison.a == claim.from &&
            comparison.b == claim.to)
          return fmt::format("{}, cell {}", source.directory, cell.cell.name);
  return "";
}

std::string why_untested(const SheetEntry& entry, const std::vector<SheetSource>& sources) {
  if (is_tested(entry)) return "";
  if (entry.claim.metric == kSetting) return "a recommended setting: its source claims no gain";
  if (!entry.claim.unmet.empty()) return entry.claim.unmet;
  if (sources.empty()) return "no results were named";
  if (!entry.results.empty()) return "these results tested another version of this claim";
  if (const std::string where = compared_in(entry.claim, sources); !where.empty())
    return fmt::format("{} compares the levels, but was planned without this claim; run the matrix "
                       "again: a claim is judged by data that came after it",
                       where);
  if (!names_keys(entry.claim)) return "no cell of these results compares the two levels";
  for (const SheetSource& source : sources)
    for (const ClaimResult& result : source.report.claims)
      if (id_today(result.claim.id) == entry.claim.id)
        return fmt::format("{}: {}", source.directory, result.reason.text);
  return "no cell that was planned with this claim compares one of its keys";
}

// The machine's conditions, as a claims file spells them.
std::string needs_text(const ClaimRow& claim) {
  const auto needs = ordered_json::parse(claim.requires_json, nullptr, false);
  std::string text;
  if (needs.is_object())
    for (const auto& [key, value] : needs.items())
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", key, condition_text(value));
  return text;
}

void print_result(TextWriter& out, const SheetResult& result) {
  const std::string state = claim_state_text(result.result);
  if (result.superseded)
    out.raw("  " + out.colored(out.plain("superseded, was " + state), Tone::Neutral));
  else
    out.raw("  " + out.colored(out.plain(state), tone_of(result.result.state)));
  out.line(measured_text(result.result) + "; " + where_measured(result), 2 * kIndent);
  if (!result.result.reason.empty()) out.line(result.result.reason.text, 2 * kIndent);
  if (!result.changed.empty())
    out.line(fmt::format("planned and judged with another version of this claim: {}, {} "
                         "(other: {})",
                         claimed_text(result.result.claim),
                         claim_sides_text(result.result.claim),
                         fmt::join(result.changed, ", ")),
             2 * kIndent);
}

void print_entry(TextWriter& out, const SheetEntry& entry) {
  const ClaimRow& claim = entry.claim;
  out.raw("");
  out.line(fmt::format("{}: {}", claim.id, claimed_text(claim)));
  out.line(claim_sides_text(claim), kIndent);
  out.line("\"" + claim.text + "\"", kIndent);
  out.line("source: " + claim.source, kIndent);
  out.line("conditions: " + claim.conditions, kIndent);
  if (const std::string needs = needs_text(claim); !needs.empty() && is_testable(claim))
    out.line("a run needs: " + needs, kIndent);
  if (!is_tested(entry)) out.line("NOT_TESTED: " + entry.untested, kIndent);
  for (const SheetResult& result : entry.results) print_result(out, result);
}

ordered_json entry_json(const SheetEntry& entry) {
  ordered_json results = ordered_json::array(), errors = ordered_json::array();
  for (const SheetResult& result : entry.results) {
    ordered_json row = claim_json(result.result, result.cell);
    row["directory"] = printable(result.directory);
    row["machine"] = printable(result.machine);
    row["claimed_text"] = printable(claimed_text(result.result.claim));
    row["claim_changed"] = result.changed;
    row["superseded"] = result.superseded;
    row["measured_text"] = printable(measured_text(result.result));
    results.push_back(std::move(row));
  }
  for (const std::string& line : entry.claim.source_errors) errors.push_back(printable(line));
  ClaimResult nothing;
  nothing.claim = entry.claim;
  ordered_json out = claim_json(nothing, "");
  for (const char* key : {"cell",
                          "state",
                          "exceeds",
                          "provisional",
                          "end_to_end",
                          "gain",
                          "gain_interval_95",
                          "gain_interval_judged",
                          "reason",
                          "reason_code"})
    out.erase(key);
  out["claimed_text"] = printable(claimed_text(entry.claim));
  out["requires"] = ordered_json::parse(entry.claim.requires_json, nullptr, false);
  if (out["requires"].is_discarded()) out["requires"] = nullptr;
  out["source_errors"] = std::move(errors);
  out["untested"] = printable(entry.untested);
  out["results"] = std::move(results);
  return out;
}

} // namespace

std::string where_measured(const SheetResult& result) {
  return fmt::format("{}, cell {}{}",
                     result.directory,
                     result.cell,
                     result.machine.empty() ? "" : ", on " + result.machine);
}

std::vector<std::string> distinct_source_errors(const std::vector<SheetEntry>& sheet) {
  std::vector<std::string> errors;
  for (const SheetEntry& entry : sheet)
    for (const std::string& line : entry.claim.source_errors)
      if (std::find(errors.begin(), errors.end(), line) == errors.end()) errors.push_back(line);
  return errors;
}

std::string claims_summary(const std::vector<SheetEntry>& sheet) {
  std::map<ClaimState, int> counts;
  for (const SheetEntry& entry : sheet) {
    std::map<ClaimState, int> own;
    for (const SheetResult& result : entry.results)
      if (!result.superseded) own[result.result.state] = 1;
    if (own.empty()) own[ClaimState::NotTested] = 1;
    for (const auto& [state, count] : own) counts[state] += count;
  }
  std::string text = fmt::format("{} claim{}", sheet.size(), sheet.size() == 1 ? "" : "s");
  const char* separator = ": ";
  for (const auto& [state, count] : counts) {
    text += fmt::format("{}{} {}", separator, count, to_string(state));
    separator = ", ";
  }
  int counted = 0;
  for (const auto& [state, count] : counts) counted += count;
  if (counted > static_cast<int>(sheet.size())) text += " (a claim counts in each of its states)";
  std::size_t others = 0;
  for (const SheetEntry& entry : sheet)
    others += static_cast<std::size_t>(
        std::count_if(entry.results.begin(), entry.results.end(), [](const SheetResult& result) {
          return !result.changed.empty();
        }));
  if (others > 0)
    text += fmt::format("; {} result{} judged with another version of {} claim",
                        others,
                        others == 1 ? "" : "s",
                        others == 1 ? "its" : "their");
  return text;
}

std::string testable_summary(const std::vector<SheetEntry>& sheet) {
  std::size_t testable = 0, settings = 0;
  for (const SheetEntry& entry : sheet) {
    testable += is_testable(entry.claim) ? 1 : 0;
    settings += entry.claim.metric == kSetting ? 1 : 0;
  }
  const std::size_t others = sheet.size() - testable - settings;
  return fmt::format("{} can be tested by this build, {} {}, {} cannot be tested, each for the "
                     "reason beside it",
                     testable,
                     settings,
                     settings == 1 ? "is a recommended setting" : "are recommended settings",
                     others);
}

std::vector<SheetEntry> claim_sheet(const std::vector<ClaimRow>& known,
                                    const std::vector<SheetSource>& sources) {
  std::vector<SheetEntry> sheet;
  for (const ClaimRow& claim : known) sheet.push_back({claim, {}, ""});
  for (const SheetSource& source : sources)
    for (const ClaimResult& result : source.report.claims) {
      SheetEntry& entry = entry_of(sheet, result.claim);
      if (!result.cell) continue;
      const CellReport& cell = source.report.cells[*result.cell];
      const Comparison& comparison = cell.comparisons[*result.comparison];
      const std::string& name = cell.cell.name;
      SheetResult row{result,
                      source.directory,
                      name,
                      machine_of(source.report, name),
                      changed_keys(result.claim, entry.claim),
                      false};
      row.superseded = is_superseded(row.changed,
                                     entry.claim,
                                     comparison.a_config_json,
                                     board_of(source.report, name),
                                     padding_share_of(cell, comparison.a));
      entry.results.push_back(std::move(row));
    }
  for (SheetEntry& entry : sheet) entry.untested = why_untested(entry, sources);
  std::ranges::stable_partition(sheet, [](const SheetEntry& e) { return !e.results.empty(); });
  return sheet;
}

std::string render_claims_table(const std::vector<SheetEntry>& sheet, const TableStyle& style) {
  TextWriter out(style);
  out.line(claims_summary(sheet));
  out.line(testable_summary(sheet));
  for (const SheetEntry& entry : sheet) print_entry(out, entry);
  const std::vector<std::string> errors = distinct_source_errors(sheet);
  if (errors.empty()) return out.take();
  out.raw("");
  out.line(kSourceErrors);
  for (const std::string& line : errors) out.line(line, kIndent, "- ");
  return out.take();
}

std::string render_claims_json(const std::vector<SheetEntry>& sheet) {
  ordered_json claims = ordered_json::array();
  for (const SheetEntry& entry : sheet) claims.push_back(entry_json(entry));
  const ordered_json out = {
      {"schema_version", kReportSchema}, {"summary", claims_summary(sheet)}, {"claims", claims}};
  return out.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

} // namespace assay
