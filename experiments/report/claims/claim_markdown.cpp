// The claim sheet as a page: what a reader of a document wants to know of each of its figures.
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>

#include "core/files/markdown_text.h"
#include "experiments/analysis/wording.h"
#include "experiments/report/claims/claim_sheet.h"
#include "experiments/report/markdown_table.h"

namespace assay {

namespace {

std::string document_of(const SheetEntry& entry) {
  return entry.claim.source.substr(0, entry.claim.source.find(", section"));
}

std::string place_of(const SheetEntry& entry) {
  const std::string document = document_of(entry);
  return entry.claim.source.size() > document.size()
             ? entry.claim.source.substr(document.size() + 2)
             : "";
}

double width_of(const ClaimResult& result) {
  return result.gain_judged ? result.gain_judged->upper - result.gain_judged->lower
                            : std::numeric_limits<double>::infinity();
}

// Of each state the result that knows most; where one was measured, no other.
std::vector<const SheetResult*> telling_results(const SheetEntry& entry) {
  std::map<ClaimState, const SheetResult*> best;
  for (const SheetResult& row : entry.results) {
    if (row.superseded) continue;
    const SheetResult*& kept = best[row.result.state];
    if (kept == nullptr || width_of(row.result) < width_of(kept->result)) kept = &row;
  }
  const bool measured = std::ranges::any_of(
      best, [](const auto& one) { return one.second->result.gain.has_value(); });
  std::vector<const SheetResult*> rows;
  for (const auto& [state, row] : best)
    if (row->result.gain || !measured) rows.push_back(row);
  return rows;
}

void add_rows(Section& section, const SheetEntry& entry) {
  const std::string claim = fmt::format("{}: {}", entry.claim.id, claimed_text(entry.claim));
  const std::vector<const SheetResult*> results = telling_results(entry);
  if (results.empty()) {
    section.rows.push_back({{claim, place_of(entry), "NOT_TESTED", entry.untested, ""}});
    return;
  }
  bool first = true;
  for (const SheetResult* row : results) {
    std::string measured = measured_text(row->result);
    if (row->result.state == ClaimState::ConditionsNotMet)
      measured += "; " + row->result.reason.text;
    if (!row->changed.empty())
      measured += fmt::format("; judged with another version of the claim (other: {})",
                              fmt::join(row->changed, ", "));
    section.rows.push_back({{first ? claim : "",
                             first ? place_of(entry) : "",
                             claim_state_text(row->result),
                             measured,
                             where_measured(*row)}});
    first = false;
  }
}

} // namespace

std::string render_claims_markdown(const std::vector<SheetEntry>& sheet) {
  std::vector<std::string> documents; // in the order of the sheet
  std::map<std::string, std::vector<SheetEntry>> of;
  for (const SheetEntry& entry : sheet) {
    std::vector<SheetEntry>& own = of[document_of(entry)];
    if (own.empty()) documents.push_back(document_of(entry));
    own.push_back(entry);
  }
  std::string out = fmt::format("# Claims and what was measured\n\n{}. {}.\n\nOf the "
                                "results of a claim in one state this page has the one with the "
                                "narrowest interval; `assay claims DIR...` prints all.\n",
                                markdown_cell(claims_summary(sheet)),
                                markdown_cell(testable_summary(sheet)));
  for (const std::string& document : documents) {
    const std::vector<SheetEntry>& own = of[document];
    Section section{
        .columns = {{"claim"}, {"where"}, {"verdict", false, true}, {"measured"}, {"by"}}};
    for (const SheetEntry& entry : own) add_rows(section, entry);
    out += fmt::format("\n## {}\n\n{}. {}.\n\n{}",
                       markdown_cell(document),
                       markdown_cell(claims_summary(own)),
                       markdown_cell(testable_summary(own)),
                       markdown_table(section));
  }
  const std::vector<std::string> errors = distinct_source_errors(sheet);
  if (!errors.empty()) out += fmt::format("\n## {}\n\n", kSourceErrors);
  for (const std::string& line : errors) out += "- " + markdown_cell(line) + "\n";
  return out;
}

} // namespace assay
