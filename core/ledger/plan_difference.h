// What two plans, as JSON (SpecRow::plan_json), do not have in common: for the refusal to continue
// one with the other.
#pragma once

#include <set>
#include <string>

namespace assay {

// "launches: 5 there, 3 here; cell 'varlen', seq_len: 128 there, 256 here (and in 2 more cells);
// …": all differences of the keys `asked`, then the most general, `most` in all. "" when none is
// found, or one side cannot be read.
std::string plan_difference(const std::string& there,
                            const std::string& here,
                            std::size_t most = 3,
                            const std::set<std::string>& asked = {});

} // namespace assay
