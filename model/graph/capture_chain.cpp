#include "model/graph/capture_chain.h"

#include <algorithm>
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

bool all_differ(std::vector<cudaGraphNode_t> nodes) {
  std::sort(nodes.begin(), nodes.end());
  return std::adjacent_find(nodes.begin(), nodes.end()) == nodes.end();
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
  if (graph == nullptr) return false;
  std::size_t count = 0, edges = 0;
  ASSAY_CUDA(cudaGraphGetNodes(graph, nullptr, &count));
  ASSAY_CUDA(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges));
  if (count == 0 || edges != count - 1) return false;
  std::vector<cudaGraphNode_t> nodes(count), from(edges), to(edges);
  ASSAY_CUDA(cudaGraphGetNodes(graph, nodes.data(), &count));
  ASSAY_CUDA(cudaGraphGetEdges(graph, from.data(), to.data(), nullptr, &edges));
  return all_differ(from) && all_differ(to) && std::all_of(nodes.begin(), nodes.end(), has_record);
}

} // namespace assay
