// Explanations: the traced launch of a cell as the reason why its variants differ, and what follows
// for claims that name stages.
#pragma once

#include <string>

#include "experiments/analysis/report.h"

namespace assay {

// A CONFIRMED claim that names stages needs this share of the gain in them.
inline constexpr double kNamedStagesShare = 0.70;

// Why a cell has no trace here, and how to get one.
std::string why_no_trace(const LedgerData& data, const CellView& cell);
// "varlen: …" of this cell; of 0, of every cell: "varlen, ema: …; nsa: …".
std::string why_no_trace(const LedgerData& data, std::int64_t cell);

// Fills `explanation`, or `no_explanation` with the reason, of every comparison, from the latest
// complete traced launch of the cell. Reads the trace files of the results directory; "" leaves
// both empty.
void explain_from_traces(CellReport& report,
                         const LedgerData& data,
                         const CellView& cell,
                         const std::string& directory);

// The trace files of a results directory that cannot be read, "traces/8.0.varlen.sqlite"; reads
// all.
std::vector<std::string> damaged_traces(const std::string& directory);
// Those of rank 0 that complete traced launches wrote and that are not there; reads none. Another
// rank may have run on another machine.
std::vector<std::string> missing_traces(const std::string& directory, const LedgerData& data);

// A CONFIRMED claim of time that names stages becomes CONSISTENT with the reason, unless a usable
// explanation puts 70 % of the gain into them. What was not checked confirms nothing.
void apply_stage_clause(ClaimResult& result, const Comparison& comparison);

} // namespace assay
