// GraphNodes: stages of what a CUDA graph did, by each record's place in its replay.
#pragma once

#include <cstdint>
#include <vector>

#include "core/trace/trace.h"
#include "experiments/attribution/attribution.h"

namespace assay {

// Key of Trace::info: for each graph of the program the spans that were open when its nodes were
// captured, [[["forward>latent_attention", 12], …], …].
inline constexpr const char* kGraphNodesInfo = "graph_nodes";

class GraphNodes {
public:
  explicit GraphNodes(const Trace& trace);
  // Of Trace::device[event]. Stage::Graph where the trace does not name the node's spans: no table,
  // a replay with another number of records than any graph has nodes, or two tables that differ.
  Stage stage_of(std::size_t event) const { return stages_[event]; }

private:
  std::vector<Stage> stages_; // by device event
};

} // namespace assay
