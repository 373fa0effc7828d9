// Trace evidence: the traced launches of a results directory as explanations of its comparisons,
// and what follows from them for claims. Reads trace files; analyze() itself stays a pure function
// of the ledger.
#pragma once

#include <string>

#include "core/ledger/ledger.h"
#include "experiments/analysis/report.h"

namespace assay {

// A CONFIRMED claim that names stages needs this share of the gain in them.
inline constexpr double kNamedStagesShare = 0.70;

// Fills `explanation`, or `no_explanation` with the reason, of every comparison, from the latest
// complete traced launch of its cell, and then applies the clause on named stages to the claims.
void explain_from_traces(Report& report, const LedgerData& data, const std::string& directory);

// The clause alone: a CONFIRMED claim of time that names stages becomes CONSISTENT with the reason,
// unless a usable explanation puts 70 % of the gain into them. What was not checked confirms
// nothing.
void apply_stage_clause(Report& report);

} // namespace assay
