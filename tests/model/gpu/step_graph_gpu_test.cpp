// The whole step as a CUDA graph against the same steps launched one by one: changing data,
// documents and learning rates, skipped updates, evaluations between replays, several variants in
// one process, moved weights, steady memory. Without a GPU these tests fail.
#include <ATen/core/grad_mode.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include "kernels/cuda_check.h"
#include "kernels/spin.h"
#include "model/gates/gates.h"
#include "model/graph/graph_room.h"
#include "tests/model/model_fixture.h"

namespace assay {
namespace {

using testing_model::random_batch;

constexpr int kWarmUp = static_cast<int>(StepGraphs::kWarmUpSteps);

// Layers of the delta rule alone: every kernel of it adds up in a fixed order, so eager and
// replayed steps have the same bits. With an M flash attention's atomics are in it.
TrainConfig fused_config(const std::string& pattern = "GG", Attention path = Attention::Packed) {
  TrainConfig config;
  config.preset = "tiny";
  config.pattern = pattern;
  config.device = Device::Cuda;
  config.precision = Precision::Bf16;
  config.attention = path;
  config.delta_form = DeltaForm::Fused;
  config.delta_inputs = DeltaInputs::Fused;
  config.norms = Norms::Fused;
  config.ffn_gate = FfnGate::Fused;
  config.loss_chunk_mib = 64;
  config.steps = 40;
  config.warmup_steps = 20; // longer than a test: the learning rate changes in every step
  return value_or_throw(resolve(config));
}

TrainConfig with_graph(TrainConfig config) {
  config.step_graph = StepGraph::On;
  return value_or_throw(resolve(config));
}

// Documents that end after every `length` tokens, from an offset that differs by `seed`.
Batch batch_of(const TrainConfig& config, std::uint64_t seed, std::int32_t length) {
  std::vector<std::int32_t> borders;
  const auto tokens = static_cast<std::int32_t>(config.seq_len * config.batch_rows);
  for (std::int32_t end = 1 + static_cast<std::int32_t>(seed) % length; end < tokens; end += length)
    borders.push_back(end);
  return random_batch(config, seed, borders);
}

at::Tensor flat(const NamedTensors& tensors) {
  std::vector<at::Tensor> parts;
  for (const auto& [name, tensor] : tensors) parts.push_back(tensor.reshape(-1));
  return at::cat(parts);
}

struct Trained {
  std::vector<double> losses, norms, rates;
  at::Tensor state; // weights, moments, EMA, scaler
};

// One step a batch; all results are read at the end, as a visit does.
Trained train(Trainer& trainer, const std::vector<Batch>& batches) {
  std::vector<StepResult> results;
  for (const Batch& batch : batches) results.push_back(trainer.step({batch}));
  Trained run;
  for (const StepResult& result : results) {
    run.losses.push_back(result.loss());
    run.norms.push_back(result.grad_norm());
    run.rates.push_back(result.lr);
  }
  run.state = flat(trainer.state_tensors()).clone();
  return run;
}

Trained train(const TrainConfig& config, const std::vector<Batch>& batches) {
  Trainer trainer(config);
  return train(trainer, batches);
}

void expect_same_bits(const Trained& actual, const Trained& expected) {
  EXPECT_EQ(actual.losses, expected.losses);
  EXPECT_EQ(actual.norms, expected.norms);
  EXPECT_EQ(actual.rates, expected.rates);
  EXPECT_TRUE(at::equal(actual.state, expected.state))
      << "relative RMS of the state: " << relative_rms(actual.state, expected.state);
  EXPECT_TRUE(at::isfinite(expected.state).all().item<bool>());
}

std::vector<Batch> batches_of(const TrainConfig& config, int count, std::int32_t length = 37) {
  std::vector<Batch> batches;
  for (int i = 0; i < count; ++i)
    batches.push_back(batch_of(config, static_cast<std::uint64_t>(20 + i), length + i % 5));
  return batches;
}

class StepGraphGpu : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_TRUE(at::cuda::is_available()) << "these tests need a CUDA device";
  }
};

TEST_F(StepGraphGpu, ReplaysHaveTheBitsOfEagerSteps) {
  for (const Attention path : {Attention::Packed, Attention::Varlen}) {
    const TrainConfig off = fused_config("GG", path);
    const std::vector<Batch> batches = batches_of(off, 8);
    const Trained eager = train(off, batches);
    Trainer trainer(with_graph(off));
    expect_same_bits(train(trainer, batches), eager);
    EXPECT_EQ(trainer.graph_counts()->warm_up_steps, kWarmUp);
    EXPECT_EQ(trainer.graph_counts()->replays, 8 - kWarmUp);
    EXPECT_EQ(trainer.graph_counts()->eager_steps, 0);
    EXPECT_EQ(trainer.graph_counts()->recaptures, 0);
    for (std::size_t i = 1; i < eager.rates.size(); ++i)
      EXPECT_NE(eager.rates[i], eager.rates[i - 1]) << "a rate kept by the graph would not show";
  }
}

void expect_as_near_as_eager_runs(const TrainConfig& off) {
  const std::vector<Batch> batches = batches_of(off, 8);
  const Trained eager = train(off, batches);
  double own = 0;
  for (int i = 0; i < 4; ++i)
    own = std::max(own, relative_rms(train(off, batches).state, eager.state));
  const double bound = std::max(2 * own, 1e-12);
  // A rounding that chooses another block takes a few runs far away; a wrong graph is always far.
  Trained graph = train(with_graph(off), batches);
  for (int i = 0; i < 3 && relative_rms(graph.state, eager.state) > bound; ++i)
    graph = train(with_graph(off), batches);
  EXPECT_LE(relative_rms(graph.state, eager.state), bound) << own;
  for (std::size_t i = 0; i < eager.losses.size(); ++i)
    EXPECT_NEAR(graph.losses[i], eager.losses[i], 2e-3 * eager.losses[i]) << i;
}

// Attention's gradient is added up by atomics: eager runs differ from each other as well.
TEST_F(StepGraphGpu, WithAttentionReplaysDifferNoMoreThanEagerRunsDo) {
  for (const Attention path : {Attention::Packed, Attention::Varlen})
    expect_as_near_as_eager_runs(fused_config("GGM", path));
}

// Plans, tables of addresses and copies that the host makes once, all in one graph.
TEST_F(StepGraphGpu, WithEveryFastLevelReplaysDifferNoMoreThanEagerRunsDo) {
  const bool has_cudnn = at::cuda::getCurrentDeviceProperties()->major >= 9;
  for (const Attention path : {Attention::Packed, Attention::Varlen}) {
    TrainConfig off = fused_config("GGM", path);
    off.mla_attention = has_cudnn ? MlaAttention::Cudnn : MlaAttention::FlashPadded;
    off.mla_inputs = MlaInputs::Fused;
    off.weights16 = Weights16::Kept;
    off.update_pass = UpdatePass::OnePass;
    off.residual = Residual::Bf16;
    expect_as_near_as_eager_runs(value_or_throw(resolve(off)));
    if (!has_cudnn) continue; // nor FP8
    off.precision = Precision::Fp8;
    expect_as_near_as_eager_runs(value_or_throw(resolve(off)));
  }
}

// Blocks are chosen inside the graph, for the documents of each batch.
TEST_F(StepGraphGpu, WithSparseAttentionReplaysDifferNoMoreThanEagerRunsDo) {
  for (const Attention path : {Attention::Packed, Attention::Varlen})
    for (const NsaInputForm inputs : {NsaInputForm::Ops, NsaInputForm::Fused}) {
      TrainConfig off;
      off.family = "nsa";
      off.pattern = "NN";
      off.device = Device::Cuda;
      off.precision = Precision::Bf16;
      off.attention = path;
      off.norms = Norms::Fused;
      off.nsa_inputs = inputs;
      off.loss_chunk_mib = 64;
      off.weights16 = Weights16::Kept;
      off.update_pass = UpdatePass::OnePass;
      off.steps = 40;
      off.warmup_steps = 20;
      off = value_or_throw(resolve(off));
      expect_as_near_as_eager_runs(off);
      Trainer trainer(with_graph(off));
      (void)train(trainer, batches_of(off, 6));
      EXPECT_EQ(trainer.graph_counts()->replays, 6 - kWarmUp);
    }
}

// Scales are found, and weights cast, inside the graph: no step has another's.
TEST_F(StepGraphGpu, ReplaysInFp8HaveTheBitsOfEagerSteps) {
  if (at::cuda::getCurrentDeviceProperties()->major < 9) GTEST_SKIP() << "no FP8 products";
  TrainConfig off = fused_config("GG", Attention::Varlen);
  off.precision = Precision::Fp8;
  off.residual = Residual::Bf16;
  off.weights16 = Weights16::Kept;
  off.update_pass = UpdatePass::OnePass;
  off = value_or_throw(resolve(off));
  const std::vector<Batch> batches = batches_of(off, 8);
  const Trained eager = train(off, batches);
  Trainer trainer(with_graph(off));
  expect_same_bits(train(trainer, batches), eager);
  EXPECT_EQ(trainer.graph_counts()->replays, 8 - kWarmUp);
}

TEST_F(StepGraphGpu, PassesItsGatesAndShowsAReplay) {
  const Optimization& row = *optimizations().find("step_graph");
  for (const Attention path : {Attention::Packed, Attention::Varlen}) {
    const TrainConfig off = fused_config("GGM", path), on = with_graph(off);
    const std::vector<Batch> batches = batches_of(off, 4);
    for (const GateResult& gate : run_gates(row, off, on, batches))
      EXPECT_TRUE(gate.passed) << gate.name << ": " << gate.value << " > " << gate.bound << " ("
                               << gate.detail << ")";
    const CodePath seen = record_code_path(row, on, batches);
    EXPECT_EQ(seen.counters.at("graph/replay"), 1);
    EXPECT_EQ(seen.counters.count("graph/off"), 0U);
    EXPECT_EQ(seen.counters.count("graph/eager_step"), 0U);
    EXPECT_EQ(seen.spans.count("delta_rule/fused"), 1U) << "other rows' proofs need the capture";
    EXPECT_EQ(record_code_path(row, off, batches).counters.at("graph/off"), 1);
  }
}

TEST_F(StepGraphGpu, SeveralMicroBatches) {
  TrainConfig off = fused_config("GG", Attention::Varlen);
  off.accumulate = 2;
  const std::vector<Batch> batches = batches_of(off, 12);
  const auto run = [&](const TrainConfig& config) {
    Trainer trainer(config);
    Trained result;
    for (std::size_t i = 0; i + 1 < batches.size(); i += 2)
      result.losses.push_back(trainer.step({batches[i], batches[i + 1]}).loss());
    result.state = flat(trainer.state_tensors()).clone();
    return result;
  };
  expect_same_bits(run(with_graph(off)), run(off));
}

void set_scale(Trainer& trainer, double scale) {
  for (auto& [name, tensor] : trainer.state_tensors())
    if (name == "scaler.scale") tensor.fill_(scale);
}

// A scale of infinity makes every gradient of the next step inf or NaN.
TEST_F(StepGraphGpu, AReplaySkipsAnUpdateThatOverflows) {
  TrainConfig off = fused_config();
  off.grad_scaler = GradScaler::Dynamic;
  const std::vector<Batch> batches = batches_of(off, 10);
  const auto part = [&](std::ptrdiff_t from, std::ptrdiff_t to) {
    return std::vector<Batch>(batches.begin() + from, batches.begin() + to);
  };
  Trainer eager(off), graph(with_graph(off));
  expect_same_bits(train(graph, part(0, 5)), train(eager, part(0, 5)));
  const at::Tensor before = flat(graph.weights()).clone();
  for (Trainer* trainer : {&eager, &graph}) {
    set_scale(*trainer, std::numeric_limits<double>::infinity());
    EXPECT_FALSE(std::isfinite(train(*trainer, part(5, 6)).norms[0]));
    EXPECT_EQ(trainer->skipped_steps(), 1);
    set_scale(*trainer, off.init_scale);
  }
  EXPECT_TRUE(at::equal(flat(graph.weights()), before)) << "a skipped update changes nothing";
  expect_same_bits(train(graph, part(6, 10)), train(eager, part(6, 10)));
  EXPECT_FALSE(at::equal(flat(graph.weights()), before));
  EXPECT_EQ(graph.skipped_steps(), 1);
  EXPECT_EQ(graph.graph_counts()->replays, 10 - kWarmUp);
}

TEST_F(StepGraphGpu, EvaluationOnTheEmaBetweenReplays) {
  for (const EmaSwap swap : {EmaSwap::CloneCopy, EmaSwap::PointerSwap, EmaSwap::Exchange}) {
    TrainConfig off = fused_config("GG", Attention::Varlen);
    off.ema_swap = swap;
    const std::vector<Batch> batches = batches_of(off, 12), held_out = batches_of(off, 2, 50);
    Trainer eager(off), graph(with_graph(off));
    for (std::size_t from = 0; from < batches.size(); from += 4) {
      const std::vector<Batch> part(batches.begin() + static_cast<std::ptrdiff_t>(from),
                                    batches.begin() + static_cast<std::ptrdiff_t>(from + 4));
      expect_same_bits(train(graph, part), train(eager, part));
      EXPECT_EQ(graph.evaluate(held_out).nats_per_token, eager.evaluate(held_out).nats_per_token);
    }
    EXPECT_EQ(graph.graph_counts()->recaptures, 0) << "the addresses are the same after a swap";
    EXPECT_EQ(graph.graph_counts()->replays, 12 - kWarmUp);
  }
}

// As visits do: a few steps of one variant, a few of another, in one pool of memory.
TEST_F(StepGraphGpu, SeveralVariantsInOneProcess) {
  const TrainConfig off = fused_config("GG", Attention::Varlen);
  TrainConfig other = off;
  other.seed = 7, other.lr = 2 * off.lr;
  const std::vector<Batch> batches = batches_of(off, 16);
  Trainer a(with_graph(off)), b(with_graph(other)), c(off);
  Trainer a_alone(off), b_alone(other);
  const Trained a_expected = train(a_alone, batches), b_expected = train(b_alone, batches);
  Trained a_seen, b_seen;
  for (std::size_t from = 0; from < batches.size(); from += 4) {
    const std::vector<Batch> part(batches.begin() + static_cast<std::ptrdiff_t>(from),
                                  batches.begin() + static_cast<std::ptrdiff_t>(from + 4));
    for (const auto& [trainer, seen] : {std::pair(&a, &a_seen), std::pair(&b, &b_seen)}) {
      const Trained now = train(*trainer, part);
      seen->losses.insert(seen->losses.end(), now.losses.begin(), now.losses.end());
      seen->norms.insert(seen->norms.end(), now.norms.begin(), now.norms.end());
      seen->rates.insert(seen->rates.end(), now.rates.begin(), now.rates.end());
      seen->state = now.state;
    }
    (void)train(c, part); // an eager variant between them
  }
  expect_same_bits(a_seen, a_expected);
  expect_same_bits(b_seen, b_expected);
  expect_same_bits({a_expected.losses, a_expected.norms, a_expected.rates, flat(c.state_tensors())},
                   a_expected);
}

TEST_F(StepGraphGpu, MovedWeightsAreCapturedAgain) {
  const TrainConfig off = fused_config();
  const std::vector<Batch> batches = batches_of(off, 10);
  const std::vector<Batch> first(batches.begin(), batches.begin() + 6),
      rest(batches.begin() + 6, batches.end());
  Trainer eager(off), graph(with_graph(off));
  expect_same_bits(train(graph, first), train(eager, first));
  const at::Tensor old = graph.parameters().front().tensor.detach();
  {
    const at::NoGradGuard no_grad;
    at::Tensor weight = graph.parameters().front().tensor;
    weight.set_data(old.clone());
  }
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
  const at::Tensor old = graph.parameters().front().tensor.detach();
  {
    const at::NoGradGuard no_grad;
    at::Tensor weight = graph.parameters().front().tensor;
    weight.set_data(old.clone());
  }
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

} // namespace
} // namespace assay
