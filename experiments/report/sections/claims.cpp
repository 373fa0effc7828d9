// Published claims against what was measured. Those whose conditions this run does not meet take
// one line together.
#include <algorithm>
#include <map>

#include "core/text.h"
#include "experiments/analysis/wording.h"
#include "experiments/report/sections/list.h"

namespace assay {

namespace {

bool applies(const ClaimResult& result) {
  return result.state != ClaimState::NotTested && result.state != ClaimState::ConditionsNotMet;
}

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
    const CellRow& cell = report.cells[*result.cell].cell;
    for (const ClaimNeed& need : unmet_needs(result.claim, cell, gpu_of(report, cell.name)))
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

std::string others_note(const Report& report) {
  std::map<std::string, bool> known; // by claim: whether some result of it applies
  for (const ClaimResult& result : report.claims) known[result.claim.id] |= applies(result);
  const auto others =
      std::count_if(known.begin(), known.end(), [](const auto& claim) { return !claim.second; });
  if (others == 0) return "";
  const std::vector<std::string> needs = missing_needs(report);
  return fmt::format("{} published claim{} not apply here{}; `assay claims DIR` lists {}.",
                     others,
                     others == 1 ? " does" : "s do",
                     needs.empty() ? "" : fmt::format(" (needed: {})", fmt::join(needs, ", ")),
                     others == 1 ? "it" : "them");
}

std::string cell_of(const Report& report, const ClaimResult& result) {
  return result.cell ? report.cells[*result.cell].cell.name : "";
}

Tone tone_of(ClaimState state) {
  if (state == ClaimState::Confirmed || state == ClaimState::Consistent) return Tone::Good;
  if (state == ClaimState::Shortfall) return Tone::Mixed;
  const bool broken = state == ClaimState::Refuted || state == ClaimState::Opposite;
  return broken ? Tone::Bad : Tone::Neutral;
}

} // namespace

Section claims_section(const Report& report) {
  Section section{.id = "claims", .title = "Claims", .names = 2};
  section.columns = {
      {"claim"}, {"cell"}, {"claimed"}, {"measured"}, {"state", false, true}, {"reason"}};
  for (const ClaimResult& result : report.claims) {
    if (!applies(result)) continue;
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
  if (std::string note = others_note(report); !note.empty())
    section.notes.push_back(std::move(note));
  return section;
}

Section claim_sources_section(const Report& report) {
  Section section{.id = "claim_sources", .title = "Sources of the claims", .depth = Depth::Record};
  section.columns = {{"claim"}, {"text"}, {"conditions"}, {"source"}};
  for (const ClaimResult& result : report.claims) {
    const bool known = std::any_of(section.rows.begin(), section.rows.end(), [&](const auto& row) {
      return row.texts.front() == result.claim.id;
    });
    if (applies(result) && !known)
      section.rows.push_back(
          {{result.claim.id, result.claim.text, result.claim.conditions, result.claim.source},
           cell_of(report, result)});
  }
  return section;
}

Section claim_errors_section(const Report& report) {
  Section section{.id = "claim_errors", .title = kSourceErrors, .depth = Depth::Record};
  for (const std::string& text : report.source_errors) section.rows.push_back({{text}, ""});
  return section;
}

} // namespace assay
