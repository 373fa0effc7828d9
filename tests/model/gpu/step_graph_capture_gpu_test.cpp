// When a step is captured as a CUDA graph, and what the graphs take: moved weights, failed
// captures, a graph for every size of documents, steady memory, the nodes' spans.
#include <ATen/core/grad_mode.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda_check.h"
#include "kernels/spin.h"
#include "model/graph/graph_room.h"
#include "tests/model/gpu/step_graph_gpu.h"

namespace assay {
namespace step_graph_capture_gpu_test {

using testing_model::batch_of;
using testing_model::batches_of;
using testing_model::expect_same_bits;
using testing_model::fused_config;
using testing_model::kWarmUp;
using testing_model::StepGraphGpu;
using testing_model::train;
using testing_model::Trained;
using testing_model::with_graph;

// Gives it other memory with the same values; returns the old memory.
at::Tensor move_first_weight(Trainer& trainer) {
  const at::NoGradGuard no_grad;
  at::Tensor weight = trainer.parameters().front().tensor;
  const at::Tensor old = weight.detach();
  weight.set_data(old.clone());
  return old;
}

// Another stream would cost another workspace of cuBLAS, which nobody gives back.
TEST_F(StepGraphGpu, RoomsOneAfterTheOtherUseOneStream) {
  const auto first = GraphRoom::shared()->stream(), second = GraphRoom::shared()->stream();
  EXPECT_EQ(first, second);
}

TEST_F(StepGraphGpu, MovedWeightsAreCapturedAgain) {
  const TrainConfig off = fused_config();
  const std::vector<Batch> batches = batches_of(off, 10);
  const std::vector<Batch> first(batches.begin(), batches.begin() + 6),
      rest(batches.begin() + 6, batches.end());
  Trainer eager(off), graph(with_graph(off));
  expect_same_bits(train(graph, first), train(eager, first));
  const at::Tensor old = move_first_weight(graph);
  expect_same_bits(train(graph, rest), train(eager, rest));
  EXPECT_EQ(graph.graph_counts()->recaptures, 1);
  EXPECT_EQ(graph.graph_counts()->warm_up_steps, kWarmUp + 1);
  EXPECT_EQ(graph.graph_counts()->replays, 10 - kWarmUp - 1);
  EXPECT_FALSE(at::equal(old, graph.parameters().front().tensor)) << "the old weight was updated";
}

// The update's table of addresses is written outside of a graph.
TEST_F(StepGraphGpu, MovedWeightsOfAnUpdateInOnePassAreCapturedAgain) {
  TrainConfig off = fused_config();
  off.update_pass = UpdatePass::OnePass;
  off.weights16 = Weights16::Kept;
  off = value_or_throw(resolve(off));
  const std::vector<Batch> batches = batches_of(off, 10);
  const std::vector<Batch> first(batches.begin(), batches.begin() + 6),
      rest(batches.begin() + 6, batches.end());
  Trainer eager(off), graph(with_graph(off));
  expect_same_bits(train(graph, first), train(eager, first));
  (void)move_first_weight(graph);
  expect_same_bits(train(graph, rest), train(eager, rest));
  EXPECT_EQ(graph.graph_counts()->recaptures, 1);
}

// The pool of memory lives on with a trainer that has no graph yet.
TEST_F(StepGraphGpu, ACaptureAfterTheLastGraphIsGone) {
  const TrainConfig off = fused_config();
  const std::vector<Batch> batches = batches_of(off, kWarmUp + 2);
  const Trained eager = train(off, batches);
  Trainer later(with_graph(off));
  expect_same_bits(train(with_graph(off), batches), eager);
  expect_same_bits(train(later, batches), eager);
  EXPECT_EQ(later.graph_counts()->replays, 2);
}

TEST_F(StepGraphGpu, AFailedCaptureGivesItsErrorAndTheProcessGoesOn) {
  const TrainConfig off = fused_config(), on = with_graph(off);
  const std::vector<Batch> batches = batches_of(on, kWarmUp + 2);
  const at::Tensor weight = at::ones({4096}, at::TensorOptions().device(at::kCUDA));
  using Fault = std::function<void(const at::Tensor&)>;
  const std::vector<std::pair<Fault, std::string>> faults{
      {[](const at::Tensor&) { throw std::runtime_error("planted in the step"); },
       "planted in the step"},
      {[](const at::Tensor& sum) { (void)sum.item<float>(); }, "captur"}}; // waits for the device
  for (const auto& [fault, message] : faults) {
    int calls = 0;
    StepGraphs graphs(on, {weight}, [&](const std::vector<Batch>&) {
      const at::Tensor sum = (weight * 2).sum();
      if (++calls == kWarmUp + 1) fault(sum);
      return StepOutputs{sum, sum.sqrt()};
    });
    for (std::size_t i = 0; i < kWarmUp; ++i) (void)graphs.step({batches[i]});
    try {
      (void)graphs.step({batches[kWarmUp]});
      ADD_FAILURE() << "the capture did not fail: " << message;
    } catch (const std::exception& error) {
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
    }
    EXPECT_EQ(graphs.counts().replays, 0);
    EXPECT_EQ(graphs.step({batches[kWarmUp]}).loss.item<float>(), 2.0F * 4096) << "a new capture";
    EXPECT_EQ(graphs.counts().replays, 1);
  }
  c10::cuda::CUDACachingAllocator::emptyCache(); // refuses where a capture is open
  EXPECT_EQ(graph_pool_bytes(), 0) << "the room of the failed captures is gone";
  expect_same_bits(train(on, batches), train(off, batches));
}

TEST_F(StepGraphGpu, DocumentsBeyondEveryGraphRunEagerly) {
  TrainConfig off = fused_config("GG", Attention::Varlen);
  off.batch_rows = 4;
  std::vector<Batch> batches = batches_of(off, 5);
  batches.push_back(batch_of(off, 3, 1)); // 512 documents of one token
  batches.push_back(batch_of(off, 4, 40));
  const Trained eager = train(off, batches);
  Trainer graph(with_graph(off));
  expect_same_bits(train(graph, batches), eager);
  EXPECT_EQ(graph.graph_counts()->eager_steps, 1);
  EXPECT_EQ(graph.graph_counts()->replays, 7 - kWarmUp - 1);
}

// Few documents have room in the first graph and in the second, 86 of them in the second alone,
// which has room for twice as many.
TEST_F(StepGraphGpu, AGraphForEverySizeOfDocuments) {
  const TrainConfig off = fused_config("GG", Attention::Varlen); // 256 tokens a batch
  std::vector<Batch> batches = batches_of(off, 4);               // about 7 documents each
  for (int i = 0; i < kWarmUp + 2; ++i)
    batches.push_back(batch_of(off, static_cast<std::uint64_t>(50 + i), 3)); // 86 documents
  batches.push_back(batch_of(off, 60, 30));
  batches.push_back(batch_of(off, 61, 2)); // 128 documents: more than 5/4 of 86
  batches.push_back(batch_of(off, 62, 1)); // 256 documents: a third graph
  const Trained eager = train(off, batches);
  Trainer graph(with_graph(off));
  expect_same_bits(train(graph, batches), eager);
  EXPECT_EQ(graph.graph_counts()->warm_up_steps, 2 * kWarmUp + 1);
  EXPECT_EQ(graph.graph_counts()->replays, 4 - kWarmUp + 2 + 1 + 1);
  EXPECT_EQ(graph.graph_counts()->eager_steps, 0);
}

// 86 documents need another graph than 7, unless so many are expected.
TEST_F(StepGraphGpu, OneGraphForTheDocumentsThatAreExpected) {
  const TrainConfig off = fused_config("GG", Attention::Varlen);
  std::vector<Batch> batches = batches_of(off, kWarmUp + 1);
  batches.push_back(batch_of(off, 50, 3));
  const Trained eager = train(off, batches);
  Trainer graph(with_graph(off));
  graph.expect_documents(86);
  expect_same_bits(train(graph, batches), eager);
  EXPECT_EQ(graph.graph_counts()->warm_up_steps, kWarmUp);
  EXPECT_EQ(graph.graph_counts()->replays, 2);
  EXPECT_EQ(graph.graph_counts()->eager_steps, 0);
}

TEST_F(StepGraphGpu, ReplaysNeitherAllocateNorKeepMemory) {
  const TrainConfig on = with_graph(fused_config("GGM", Attention::Varlen));
  const std::vector<Batch> batches = batches_of(on, 16);
  const auto stats = [] {
    c10::cuda::device_synchronize();
    return c10::cuda::CUDACachingAllocator::getDeviceStats(c10::cuda::current_device());
  };
  constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  {
    Trainer trainer(on);
    for (int i = 0; i < kWarmUp + 3; ++i)
      (void)trainer.step({batches[static_cast<std::size_t>(i)]});
    EXPECT_GT(graph_pool_bytes(), 0);
    const auto before = stats();
    const std::int64_t pool = graph_pool_bytes();
    for (int i = 0; i < 10; ++i) (void)trainer.step({batches[static_cast<std::size_t>(i)]});
    const auto after = stats();
    EXPECT_EQ(after.num_device_alloc, before.num_device_alloc);
    EXPECT_EQ(after.num_device_free, before.num_device_free);
    EXPECT_EQ(after.reserved_bytes[kAll].current, before.reserved_bytes[kAll].current);
    EXPECT_EQ(after.allocated_bytes[kAll].current, before.allocated_bytes[kAll].current);
    // One block a step: the copy of its loss and norm.
    EXPECT_EQ(after.allocation[kAll].allocated - before.allocation[kAll].allocated, 10);
    EXPECT_EQ(graph_pool_bytes(), pool);
  }
  c10::cuda::CUDACachingAllocator::emptyCache();
  for (const auto& segment : c10::cuda::CUDACachingAllocator::snapshot().segments)
    EXPECT_EQ(segment.owner_private_pool_id, c10::MempoolId_t(0, 0))
        << segment.allocated_size << " of " << segment.total_size << " bytes outlive their graphs";
}

// Several variants need the activations of one.
TEST_F(StepGraphGpu, GraphsShareTheirMemory) {
  const TrainConfig on = with_graph(fused_config("GGM"));
  const std::vector<Batch> batches = batches_of(on, kWarmUp + 1);
  Trainer a(on);
  (void)train(a, batches);
  const std::int64_t one = graph_pool_bytes();
  Trainer b(on), c(on);
  (void)train(b, batches);
  (void)train(c, batches);
  EXPECT_LT(graph_pool_bytes(), 2 * one); // pieces of it may be taken in another order
}

// Nodes are a chain of kernels, copies and sets, each in the stage that launched it; behind the
// last stage only loss and norm are copied out.
TEST_F(StepGraphGpu, EveryNodeHasTheSpansOfItsCapture) {
  for (const Attention path : {Attention::Packed, Attention::Varlen}) {
    Trainer trainer(with_graph(fused_config("GGM", path)));
    EXPECT_TRUE(trainer.graph_node_spans().empty());
    (void)train(trainer, batches_of(trainer.config(), kWarmUp + 1));
    ASSERT_EQ(trainer.graph_node_spans().size(), 1U);
    const std::vector<NodeRun> runs = trainer.graph_node_spans().front();
    ASSERT_FALSE(runs.empty()) << "the nodes are no chain of work";
    std::vector<std::string> stages;
    std::map<std::string, std::int64_t> nodes;
    for (const NodeRun& run : runs) {
      const std::string stage = run.path.substr(0, run.path.find('>'));
      if (stages.empty() || stages.back() != stage) stages.push_back(stage);
      nodes[stage] += run.nodes;
      EXPECT_GT(run.nodes, 0) << run.path;
    }
    EXPECT_EQ(stages,
              (std::vector<std::string>{"forward", "backward", "optimizer", "ema/update", ""}));
    EXPECT_EQ(nodes[""], 2);
    EXPECT_GT(nodes["forward"], 30);
    EXPECT_GT(nodes["backward"], 30);
    EXPECT_LT(nodes["ema/update"], 10);
    EXPECT_TRUE(std::any_of(runs.begin(), runs.end(), [](const NodeRun& run) {
      return run.path == "forward>gated_deltanet>delta_rule/fused";
    }));
  }
}

TEST_F(StepGraphGpu, AReplayDoesNotWaitForTheDevice) {
  Trainer trainer(with_graph(fused_config("GGM")));
  const std::vector<Batch> batches = batches_of(trainer.config(), kWarmUp + 2);
  for (const Batch& batch : batches) (void)trainer.step({batch});
  c10::cuda::device_synchronize();
  launch_spin(1'000'000'000, c10::cuda::getCurrentCUDAStream().stream());
  ASSAY_CUDA(cudaGetLastError());
  const auto start = std::chrono::steady_clock::now();
  (void)trainer.step({batches[0]});
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 0.5);
  c10::cuda::device_synchronize();
}

} // namespace step_graph_capture_gpu_test
} // namespace assay
