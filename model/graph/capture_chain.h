// What a capture under way has made so far.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace assay {

cudaGraph_t graph_of(cudaStream_t capturing); // null: the capture was invalidated
std::int64_t node_count(cudaGraph_t graph);   // 0 for null

// Every node is a kernel, copy or set, and their edges (of programmatic dependent launches as well)
// leave one order of them: a replay then has one record per node, which start in the order of
// capture.
bool is_chain_of_work(cudaGraph_t graph);

} // namespace assay
