// One answer to the engine out of every rank's: what a launch of several ranks measured as a whole.
// No LibTorch here.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

namespace assay::worker {

// Answers to the same request, by rank; none is "retired". Times are the slowest rank's, element by
// element; tokens and bytes in use are sums; a variant's memory is that of the rank with the
// highest peak, with all its parts; a loss is the mean (every rank has the same number of targets);
// a gate passes on all ranks and shows its worst value; everything else is rank 0's. A metric that
// only one rank has is kept. Throws Failure naming the rank when the answers do not fit together.
nlohmann::json merge_answers(const std::vector<nlohmann::json>& answers);

} // namespace assay::worker
