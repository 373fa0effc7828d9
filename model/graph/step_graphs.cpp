#include "model/graph/step_graphs.h"

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "core/result.h"
#include "core/span.h"
#include "model/config/step_graph.h"
#include "model/graph/capture.h"
#include "model/graph/capture_chain.h"
#include "model/layout/static_batch.h"

namespace assay {

// The graph of one size, its inputs and outputs.
struct StepGraphs::Entry {
  std::int64_t documents = 0; // room of a micro-batch; 0: rows
  std::vector<StaticBatch> inputs;
  at::Tensor outputs; // fp32 [2]: loss, gradient norm
  std::int64_t warm_up_steps = 0;
  std::unique_ptr<at::cuda::CUDAGraph> graph; // null until it is captured
  std::vector<const void*> addresses;         // of `fixed_`, as captured
  std::vector<NodeRun> spans;                 // of its nodes

  bool fits(const std::vector<Batch>& micro_batches) const {
    if (micro_batches.size() != inputs.size()) return false;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (!inputs[i].fits(micro_batches[i])) return false;
    return true;
  }
  std::vector<Batch> batches() const {
    std::vector<Batch> result;
    for (const StaticBatch& input : inputs) result.push_back(input.batch());
    return result;
  }
};

namespace {

// Documents of every micro-batch that a new graph has room for: those of these batches, and of the
// `expected` ones. Nothing: too many. 0: rows, whatever they contain.
std::optional<std::int64_t>
room_for(const std::vector<Batch>& micro_batches, Attention path, std::int64_t expected) {
  if (path != Attention::Varlen) return 0;
  std::int64_t most = 0;
  for (const Batch& batch : micro_batches) most = std::max(most, batch.documents.count());
  const std::optional<std::int64_t> room = graph_room(most);
  return room ? std::max(room, document_room(expected)) : room;
}

void require_valid_capture() {
  if (c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::Active)
    internal_error("a call of the step cannot be part of a CUDA graph: it waited for the device or "
                   "used another stream; run with step_graph = off, and please report the "
                   "configuration");
}

} // namespace

StepGraphs::StepGraphs(const TrainConfig& config, std::vector<at::Tensor> fixed, Body body)
    : path_(config.attention), fixed_(std::move(fixed)), body_(std::move(body)),
      room_(GraphRoom::shared()) {}

StepGraphs::~StepGraphs() {
  // A replay may still be under way, and the pool is given back with the last graph.
  if (!entries_.empty()) c10::cuda::device_synchronize();
}

std::vector<const void*> StepGraphs::addresses() const {
  std::vector<const void*> result;
  result.reserve(fixed_.size());
  for (const at::Tensor& tensor : fixed_) result.push_back(tensor.const_data_ptr());
  return result;
}

bool StepGraphs::moved(const Entry& entry) const {
  return addresses() != entry.addresses;
}

// The smallest graph that the batches fit; a new one where there is none.
StepGraphs::Entry* StepGraphs::entry_for(const std::vector<Batch>& micro_batches) {
  for (const std::unique_ptr<Entry>& entry : entries_)
    if (entry->fits(micro_batches)) return entry.get();
  const std::optional<std::int64_t> room = room_for(micro_batches, path_, expected_documents_);
  const bool taken = std::any_of(entries_.begin(), entries_.end(), [&](const auto& entry) {
    return room && entry->documents == *room;
  });
  if (!room || taken) return nullptr; // too many documents, or other rows than the graph's
  auto made = std::make_unique<Entry>();
  made->documents = *room;
  for (const Batch& batch : micro_batches) made->inputs.emplace_back(batch, path_, *room);
  made->outputs = at::zeros({2}, fixed_.front().options().dtype(at::kFloat).requires_grad(false));
  const auto place =
      std::find_if(entries_.begin(), entries_.end(), [&](const std::unique_ptr<Entry>& entry) {
        return entry->documents > *room;
      });
  return entries_.insert(place, std::move(made))->get();
}

StepOutputs StepGraphs::warm_up(Entry& entry) {
  count("graph/warm_up_step");
  ++entry.warm_up_steps;
  ++counts_.warm_up_steps;
  const GraphStreamGuard on_stream(*room_);
  return body_(entry.batches());
}

// Tables of addresses are written anew by an eager step; a capture must not write them.
void StepGraphs::forget_graph(Entry& entry) {
  count("graph/recapture");
  ++counts_.recaptures;
  c10::cuda::device_synchronize(); // its last replay may be under way
  entry.graph.reset();
  entry.warm_up_steps = kWarmUpSteps - 1;
}

void StepGraphs::capture(Entry& entry) {
  c10::cuda::device_synchronize();
  // A graph takes its memory anew: what the warm-up steps and earlier graphs left is of no use to
  // it.
  c10::cuda::CUDACachingAllocator::emptyCache();
  std::vector<NodeRun> runs;
  auto graph = capture_graph(*room_, [&] {
    NodeSpans spans([this] { return node_count(graph_of(room_->stream())); });
    const StepOutputs out = body_(entry.batches());
    entry.outputs[0].copy_(out.loss);
    entry.outputs[1].copy_(out.grad_norm);
    require_valid_capture();
    if (is_chain_of_work(graph_of(room_->stream()))) runs = spans.take();
  });
  if (const std::int64_t left = room_->live_bytes(); left > 0)
    internal_error("a captured step leaves {} bytes in the graphs' memory, which the next replay "
                   "of another graph would overwrite",
                   left);
  entry.graph = std::move(graph);
  entry.addresses = addresses();
  entry.spans = std::move(runs);
}

std::vector<std::vector<NodeRun>> StepGraphs::node_spans() const {
  std::vector<std::vector<NodeRun>> all;
  for (const std::unique_ptr<Entry>& entry : entries_)
    if (entry->graph) all.push_back(entry->spans);
  return all;
}

StepOutputs StepGraphs::step(const std::vector<Batch>& micro_batches) {
  Entry* entry = entry_for(micro_batches);
  if (entry == nullptr) {
    count("graph/eager_step");
    ++counts_.eager_steps;
    return body_(micro_batches);
  }
  for (std::size_t i = 0; i < micro_batches.size(); ++i) entry->inputs[i].load(micro_batches[i]);
  if (entry->graph && moved(*entry)) forget_graph(*entry);
  if (entry->warm_up_steps < kWarmUpSteps) return warm_up(*entry);
  if (!entry->graph) capture(*entry);
  count("graph/replay");
  ++counts_.replays;
  entry->graph->replay();
  // The next replay overwrites the outputs, and the caller may read them later.
  const at::Tensor both = entry->outputs.clone();
  return {both[0], both[1]};
}

} // namespace assay
