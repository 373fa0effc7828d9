// Published claims against what was measured. Those whose conditions this run does not meet take
// one line together.
#include <algorithm>
#include <map>

#include "core/text.h"
#include "experiments/analysis/wording.h"
#include "experiments/report/sections/list.h"

namespace assay {

Tone tone_of(ClaimState state) {
  if (state == ClaimState::Confirmed || state == ClaimState::Consistent) return Tone::Good;
  if (state == ClaimState::Shortfall) return Tone::Mixed;
  const bool broken = state == ClaimState::Refuted || state == ClaimState::Opposite;
  return broken ? Tone::Bad : Tone::Neutral;
}

namespace {

// Board of a cell's launches, "" on the CPU.
std::string gpu_of(const Report& report, const std::string& cell) {
  for (const LaunchSummary& launch : report.launches)
    if (launch.cell == cell && !launch.row.identity.gpu.empty()) return launch.row.identity.gpu;
  return "";
}

void add_need(std::vector<ClaimNeed>& needs, const ClaimNeed& need) {
  auto known = std::find_if(
      needs.begin(), needs.end(), [&](const ClaimNeed& other) { return other.key == need.key; });
  if (known == needs.end()) known = needs.insert(needs.end(), ClaimNeed{need.key, {}});
  for (const std::string& value : need.values)
    if (std::find(known->values.begin(), known->values.end(), value) == known->values.end())
      known->values.push_back(value);
}

// What the claims that do not apply ask for and no cell of theirs has: "cuda", "preset base".
std::vector<std::string> missing_needs(const Report& report) {
  std::vector<ClaimNeed> needs;
  for (const ClaimResult& result : report.claims) {
    if (result.state != ClaimState::ConditionsNotMet || !result.cell) continue;
    const CellReport& cell = report.cells[*result.cell];
    const Comparison& tested = cell.comparisons[*result.comparison];
    for (const ClaimNeed& need :
         unmet_needs(result.claim, tested.a_config_json, gpu_of(report, cell.cell.name)))
      add_need(needs, need);
  }
  std::vector<std::string> texts;
  for (const ClaimNeed& need : needs) { // a device or precision is known by its own name
    const bool plain = need.key == "device" || need.key == "precision";
    texts.push_back(fmt::format(
        "{}{}{}", plain ? "" : need.key, plain ? "" : " ", fmt::join(need.values, " or ")));
  }
  return texts;
}

// The claims that are not judged, by cause: the cells lack what they need, or nothing tests them.
std::string others_note(const Report& report) {
  std::map<std::string, ClaimState> best; // by claim
  for (const ClaimResult& result : report.claims) {
    const auto known = best.try_emplace(result.claim.id, result.state).first;
    if (applies(result) || known->second == ClaimState::NotTested) known->second = result.state;
  }
  const auto count = [&](ClaimState state) {
    return std::count_if(
        best.begin(), best.end(), [&](const auto& claim) { return claim.second == state; });
  };
  const auto unmet = count(ClaimState::ConditionsNotMet), untested = count(ClaimState::NotTested);
  std::vector<std::string> parts;
  const std::vector<std::string> needs = missing_needs(report);
  if (unmet > 0)
    parts.push_back(
        fmt::format("{} published claim{} not apply here{}",
                    unmet,
                    unmet == 1 ? " does" : "s do",
                    needs.empty() ? "" : fmt::format(" (needed: {})", fmt::join(needs, ", "))));
  if (untested > 0)
    parts.push_back(
        fmt::format("{} published claim{} not tested", untested, untested == 1 ? " is" : "s are"));
  if (parts.empty()) return "";
  return fmt::format("{}; `assay claims DIR` lists {}.",
                     fmt::join(parts, "; "),
                     unmet + untested == 1 ? "it" : "them");
}

// "Not measured yet: speed-norms, speed-gate in cell rows."; a claim that several cells test is
// named with its cell.
std::string unmeasured_note(const Report& report) {
  std::map<std::string, int> cells;
  for (const ClaimResult& result : report.claims) cells[result.claim.id] += result.cell ? 1 : 0;
  std::vector<std::string> names;
  for (const ClaimResult& result : report.claims)
    if (is_unmeasured(report, result))
      names.push_back(cells[result.claim.id] == 1
                          ? result.claim.id
                          : fmt::format("{} in cell {}",
                                        result.claim.id,
                                        report.cells[*result.cell].cell.name));
  return names.empty() ? "" : fmt::format("Not measured yet: {}.", fmt::join(names, ", "));
}

std::string cell_of(const Report& report, const ClaimResult& result) {
  return result.cell ? report.cells[*result.cell].cell.name : "";
}

// The result, then the claim in its source's words, then the conditions that the source names.
void add_claim(Section& section, const ClaimResult& result, const std::string& cell) {
  const ClaimRow& claim = result.claim;
  const std::string reason = result.reason.empty() ? "" : "; " + result.reason.text;
  section.rows.push_back(
      {{claim_state_text(result),
        fmt::format(
            "{}: claimed {}; {}{}", claim.id, claimed_text(claim), measured_text(result), reason)},
       cell,
       tone_of(result.state)});
  section.rows.push_back({{"", fmt::format("\"{}\" ({})", claim.text, claim.source)}, cell});
  if (!claim.conditions.empty())
    section.rows.push_back({{"", "conditions: " + claim.conditions}, cell});
}

} // namespace

Section claims_section(const Report& report) {
  Section section{.id = "claims", .title = "Claims", .names = 2};
  section.columns = {
      {"claim"}, {"cell"}, {"claimed"}, {"measured"}, {"state", false, true}, {"reason"}};
  for (const ClaimResult& result : report.claims) {
    if (!applies(result) || is_unmeasured(report, result)) continue;
    const std::string cell = cell_of(report, result);
    section.rows.push_back({{result.claim.id,
                             cell,
                             claimed_text(result.claim),
                             gain_text(result),
                             claim_state_text(result),
                             result.reason.text},
                            cell,
                            tone_of(result.state)});
  }
  if (std::ranges::all_of(section.rows, [](const auto& row) { return row.texts.back().empty(); })) {
    section.columns.pop_back();
    for (SectionRow& row : section.rows) row.texts.pop_back();
  }
  for (const auto& build : {unmeasured_note, others_note})
    if (std::string note = build(report); !note.empty()) section.notes.push_back(std::move(note));
  return section;
}

// Those that it tests, then those about the optimization that no cell can test.
Section comparison_claims_section(const ComparisonPlace& place) {
  Section section{.id = "claims",
                  .title = "Claims",
                  .depth = Depth::Record,
                  .columns = {{"", false, true}, {""}}};
  const CellRow& cell = place.cell().cell;
  for (const ClaimResult* result : claims_of(place.report, place.cell_index, place.index))
    add_claim(section, *result, cell.name);
  for (const ClaimResult& result : place.report.claims)
    if (!result.cell && result.claim.optimization == cell.optimization)
      add_claim(section, result, cell.name);
  return section;
}

Section claim_errors_section(const Report& report) {
  Section section{.id = "claim_errors", .title = kSourceErrors, .depth = Depth::Record};
  for (const std::string& text : report.source_errors) section.rows.push_back({{text}, ""});
  return section;
}

} // namespace assay
