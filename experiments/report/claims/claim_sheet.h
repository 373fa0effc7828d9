// The claim sheet: every claim with what is known about it, over any number of results directories.
#pragma once

#include <string>
#include <vector>

#include "experiments/analysis/report.h"
#include "experiments/report/render.h"

namespace assay {

// One results directory, as the user named it, and its judged report.
struct SheetSource {
  std::string directory;
  Report report;
};

struct SheetResult {
  ClaimResult result;
  std::string directory, cell,
      machine;                      // machine: board, or the CPU's name; of the counted launches
  std::vector<std::string> changed; // keys of the claim that were others when the run was planned
  bool superseded = false; // by these it is no test of the claim as it is now, whatever its state
};

struct SheetEntry {
  ClaimRow claim;                   // as the claims files have it now
  std::vector<SheetResult> results; // in the order of the directories; each has the claim as it
                                    // was when that run was planned
  std::string untested;             // why there is no result, or ""
};

// `known`: the claims of this build. Those with a result come first, and of those without, claims
// that occur only in a results directory last. A result is a comparison that bears on the claim,
// whatever its state.
std::vector<SheetEntry> claim_sheet(const std::vector<ClaimRow>& known,
                                    const std::vector<SheetSource>& sources);

// "7 claims: 1 CONFIRMED, 6 NOT_TESTED"; a claim with several results counts once for each state.
std::string claims_summary(const std::vector<SheetEntry>& sheet);
// What can be tested at all: "12 can be tested by this build, 5 are recommended settings, …".
std::string testable_summary(const std::vector<SheetEntry>& sheet);

// Each arithmetic error of the claims' sources once.
std::vector<std::string> distinct_source_errors(const std::vector<SheetEntry>& sheet);
// "results/mine, cell varlen, on NVIDIA H200"
std::string where_measured(const SheetResult& result);

std::string render_claims_table(const std::vector<SheetEntry>& sheet, const TableStyle& style);
// A page: the counts of each document that claims, and a table of its claims.
std::string render_claims_markdown(const std::vector<SheetEntry>& sheet);
std::string render_claims_json(const std::vector<SheetEntry>& sheet);

} // namespace assay
