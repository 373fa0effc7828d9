// What two plans, as JSON (SpecRow::plan_json), do not have in common: for the refusal to continue
// one with the other.
#pragma once

#include <string>

namespace assay {

// "launches: 5 there, 3 here; cell 'varlen', seq_len: 128 there, 256 here (and in 2 more cells);
// …": at most `most` differences, the most general first. "" when none is found, or one side cannot
// be read.
std::string
plan_difference(const std::string& there, const std::string& here, std::size_t most = 3);

} // namespace assay
