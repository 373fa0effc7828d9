// Joins ledgers of one plan, measured in several directories or on several hosts.
#pragma once

#include <string>
#include <vector>

#include "core/result.h"

namespace assay {

struct MergeSummary {
  int launches = 0;   // in the result
  int duplicates = 0; // launches that were in more than one input, kept once
};

// Writes `output`, which must not exist. All inputs carry the same spec hash, build and data, and
// nobody writes them. A launch is the same if its place in the plan, start, host, boot and first
// times are; of two copies the longer one is kept. Two measurements of one place in the plan that
// would both be judged are refused: they have the same seed.
Result<MergeSummary> merge_ledgers(const std::vector<std::string>& inputs,
                                   const std::string& output);

} // namespace assay
