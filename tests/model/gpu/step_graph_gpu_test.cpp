// The whole step as a CUDA graph against the same steps launched one by one: changing data,
// documents and learning rates, skipped updates, evaluations between replays, several variants in
// one process.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "tests/model/gpu/step_graph_gpu.h"

namespace assay {
namespace step_graph_gpu_test {

using testing_model::batches_of;
using testing_model::expect_as_near_as_eager_runs;
using testing_model::expect_same_bits;
using testing_model::flat;
using testing_model::fused_config;
using testing_model::kWarmUp;
using testing_model::StepGraphGpu;
using testing_model::train;
using testing_model::Trained;
using testing_model::with_graph;

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
      // A rounding that chooses another block takes a run further away: 3e-4 was seen; a batch that
      // is too old takes it 5e-3 away.
      expect_as_near_as_eager_runs(off, 1e-3);
      Trainer trainer(with_graph(off));
      (void)train(trainer, batches_of(off, 6));
      EXPECT_EQ(trainer.graph_counts()->replays, 6 - kWarmUp);
    }
}

// Taps of each batch's documents are copied into the graph's.
TEST_F(StepGraphGpu, WithScansReplaysDifferNoMoreThanEagerRunsDo) {
  for (const Attention path : {Attention::Packed, Attention::Varlen}) {
    TrainConfig off;
    off.family = "rwmba";
    off.preset = "tiny";
    off.pattern = "PRS";
    off.head_dim = 64;
    off.state_dim = 64;
    off.device = Device::Cuda;
    off.precision = Precision::Bf16;
    off.attention = path;
    off.scan_form = ScanForm::Fused;
    off.loss_chunk_mib = 64;
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

} // namespace step_graph_gpu_test
} // namespace assay
