// StepGraphs: a training step as CUDA graphs, one per size of batch, that stay valid while learning
// rate, data, documents and skipped updates change.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "model/config/train_config.h"
#include "model/graph/graph_room.h"
#include "model/graph/node_spans.h"
#include "model/layout/batch.h"

namespace assay {

// Of one step; both 0-dim on the device.
struct StepOutputs {
  at::Tensor loss, grad_norm;
};

// Steps that no graph replayed, and graphs made again.
struct GraphCounts {
  std::int64_t warm_up_steps = 0; // before a capture
  std::int64_t eager_steps = 0;   // of batches that fit no graph
  std::int64_t replays = 0;
  std::int64_t recaptures = 0;

  std::int64_t steps_without_graph() const { return warm_up_steps + eager_steps; }
};

class StepGraphs {
public:
  // All that a step does on the device, with every tensor that the host may change between steps
  // at a fixed address. It must leave no tensor behind but its outputs.
  using Body = std::function<StepOutputs(const std::vector<Batch>&)>;
  // Steps that run eagerly on the capturing stream first: libraries make their handles, workspaces
  // and plans there.
  static constexpr std::int64_t kWarmUpSteps = 3;

  // `fixed`: tensors that the step reads or writes and that outlive it. Their addresses are
  // compared before each replay; where one has changed, the graph is captured again after one more
  // eager step.
  StepGraphs(const TrainConfig& config, std::vector<at::Tensor> fixed, Body body);
  ~StepGraphs();

  // Graphs made from here on have room for batches of so many documents, as far as a graph has.
  void expect_documents(std::int64_t of_a_batch) { expected_documents_ = of_a_batch; }
  // One step. Counts "graph/replay", or "graph/warm_up_step" or "graph/eager_step" where none runs,
  // and "graph/recapture".
  StepOutputs step(const std::vector<Batch>& micro_batches);
  const GraphCounts& counts() const { return counts_; }
  // Spans of the nodes of each captured graph; empty where its nodes are not a chain of work.
  std::vector<std::vector<NodeRun>> node_spans() const;

private:
  struct Entry;
  Entry* entry_for(const std::vector<Batch>& micro_batches);
  StepOutputs warm_up(Entry& entry);
  void forget_graph(Entry& entry);
  void capture(Entry& entry);
  bool moved(const Entry& entry) const;
  std::vector<const void*> addresses() const;

  Attention path_;
  std::int64_t expected_documents_ = 0;
  std::vector<at::Tensor> fixed_;
  Body body_;
  GraphCounts counts_;
  std::shared_ptr<GraphRoom> room_;             // outlives the graphs
  std::vector<std::unique_ptr<Entry>> entries_; // fewest documents first
};

} // namespace assay
