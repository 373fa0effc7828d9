// Which data launches read. A path does not identify it: the files behind it can be replaced
// between two runs. The worker sends a fingerprint of the documents and the tokenizer with "built";
// it is kept as a metric of the launch, and launches over other data never join the same results.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "core/ledger/ledger.h"

namespace assay {

MetricRow data_fingerprint_row(std::int64_t launch, const std::string& fingerprint);

// "corpus", "corpus with tokenizer tok.model": the paths by which a cell names its data.
std::string data_name(const CellRow& cell);

// The fingerprint of every data_name that a launch of these results has read. Results of workers
// that did not send it have none.
std::map<std::string, std::string> data_fingerprints(const LedgerData& data);

// Absent: `cell` may read data of this fingerprint, as far as these results know.
std::optional<std::string>
other_data(const LedgerData& data, const CellRow& cell, const std::string& fingerprint);

} // namespace assay
