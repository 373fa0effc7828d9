#include "model/graph/capture_chain.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "kernels/cuda_check.h"

namespace assay {

namespace {

bool has_record(cudaGraphNode_t node) {
  cudaGraphNodeType type{};
  ASSAY_CUDA(cudaGraphNodeGetType(node, &type));
  return type == cudaGraphNodeTypeKernel || type == cudaGraphNodeTypeMemcpy ||
         type == cudaGraphNodeTypeMemset;
}

struct Edges {
  std::vector<cudaGraphNode_t> from, to;
};

// Edges of programmatic dependent launches carry data, without which CUDA refuses the query.
Edges edges_of(cudaGraph_t graph) {
  std::size_t count = 0;
  ASSAY_CUDA(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &count));
  Edges edges{std::vector<cudaGraphNode_t>(count), std::vector<cudaGraphNode_t>(count)};
  std::vector<cudaGraphEdgeData> data(count);
  if (count > 0)
    ASSAY_CUDA(cudaGraphGetEdges(graph, edges.from.data(), edges.to.data(), data.data(), &count));
  return edges;
}

// One order alone agrees with all edges: at every place of it one node is ready.
bool in_one_order(const std::vector<cudaGraphNode_t>& nodes, const Edges& edges) {
  std::unordered_map<cudaGraphNode_t, std::int64_t> open; // edges into a node, from nodes to come
  std::unordered_map<cudaGraphNode_t, std::vector<cudaGraphNode_t>> next;
  for (std::size_t i = 0; i < edges.to.size(); ++i) {
    ++open[edges.to[i]];
    next[edges.from[i]].push_back(edges.to[i]);
  }
  std::vector<cudaGraphNode_t> ready;
  for (const cudaGraphNode_t node : nodes)
    if (!open.contains(node)) ready.push_back(node);
  std::size_t ordered = 0;
  while (ready.size() == 1) {
    const cudaGraphNode_t node = ready.back();
    ready.pop_back();
    ++ordered;
    for (const cudaGraphNode_t later : next[node])
      if (--open[later] == 0) ready.push_back(later);
  }
  return ordered == nodes.size();
}

} // namespace

cudaGraph_t graph_of(cudaStream_t capturing) {
  cudaStreamCaptureStatus status{};
  unsigned long long id = 0;
  cudaGraph_t graph = nullptr;
  ASSAY_CUDA(cudaStreamGetCaptureInfo(capturing, &status, &id, &graph));
  return status == cudaStreamCaptureStatusActive ? graph : nullptr;
}

std::int64_t node_count(cudaGraph_t graph) {
  std::size_t nodes = 0;
  if (graph != nullptr) ASSAY_CUDA(cudaGraphGetNodes(graph, nullptr, &nodes));
  return static_cast<std::int64_t>(nodes);
}

bool is_chain_of_work(cudaGraph_t graph) {
  const auto count = static_cast<std::size_t>(node_count(graph));
  if (count == 0) return false;
  std::vector<cudaGraphNode_t> nodes(count);
  std::size_t filled = count;
  ASSAY_CUDA(cudaGraphGetNodes(graph, nodes.data(), &filled));
  return in_one_order(nodes, edges_of(graph)) &&
         std::all_of(nodes.begin(), nodes.end(), has_record);
}

} // namespace assay
