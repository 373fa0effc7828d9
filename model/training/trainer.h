// Trainer: one replica of a model with its optimizer, loss scaler, EMA and random generator.
// Nothing in it is shared with another replica of the process, and a step never waits for the
// device unless its result is asked for.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/config/train_config.h"
#include "model/families/family.h"
#include "model/graph/step_graphs.h"
#include "model/layers/linear/kept_weights.h"
#include "model/layout/batch.h"
#include "model/training/planted.h"
#include "model/training/update/ema.h"
#include "model/training/update/expert_balance.h"
#include "model/training/update/loss_scaler.h"
#include "model/training/update/muon.h"
#include "model/training/update/one_pass.h"
#include "model/training/update/optimizer.h"

namespace assay {

class Fp8Casts;
class Fp8Histories;
class Fp8Weights;
class Int8Weights;
class CompiledModel;
class ProcessGroup;
class RankSync;
class ShardedParameters;

// Of one optimizer step. The doubles wait for the device.
struct StepResult {
  at::Tensor loss_tensor;      // mean over this rank's micro-batches, nats per token, before the
                               // update
  at::Tensor grad_norm_tensor; // global, before clipping
  double lr = 0;

  double loss() const;
  double grad_norm() const;
  bool finite() const; // loss is neither inf nor NaN
};

// Of no tokens where other ranks evaluate and this one is not told the result.
struct EvalResult {
  double nats_per_token = std::numeric_limits<double>::quiet_NaN();
  std::int64_t tokens = 0;
  std::int64_t bytes = 0; // of the text that the targets stand for

  bool known() const { return tokens > 0; }
};

class Trainer {
public:
  // Needs a resolved config. Same config and seed: same initial weights on every device.
  // With config.ranks > 1 it is one of the group's equal replicas: all that changes weights is then
  // collective, and so is this constructor, which throws bad input when the ranks' weights differ.
  explicit Trainer(const TrainConfig& resolved, std::shared_ptr<ProcessGroup> ranks = nullptr);
  ~Trainer();

  // One optimizer step over prepared micro-batches of equal token count (of ranks: this rank's).
  StepResult step(const std::vector<Batch>& micro_batches);
  // What step() does after its backward passes, with the given gradients, in the order of
  // parameters(), as they would come: averaged, and multiplied by the loss scale.
  StepResult update_with(const std::vector<at::Tensor>& gradients);
  // Steps after which one shows all that later ones do; with step_graph = on the next is the
  // capture.
  std::int64_t warm_up_steps() const { return graphs_ ? StepGraphs::kWarmUpSteps : 1; }
  // Of batches to come: a graph with room for them all is captured once. Nothing without graphs.
  void expect_documents(std::int64_t of_a_batch) {
    if (graphs_) graphs_->expect_documents(of_a_batch);
  }
  // Of step_graph = on; null: no graphs.
  const GraphCounts* graph_counts() const { return graphs_ ? &graphs_->counts() : nullptr; }
  // Of each captured graph: which spans its nodes belong to.
  std::vector<std::vector<NodeRun>> graph_node_spans() const {
    return graphs_ ? graphs_->node_spans() : std::vector<std::vector<NodeRun>>();
  }
  // On the EMA weights, documents isolated whatever config().attention says. RankChannel:
  // collective, over a list that is the same on every rank, shared as config().validation_ranks
  // says.
  EvalResult evaluate(const std::vector<Batch>& batches);

  // Logits [B*T, vocab_size] without gradient, of the current weights: documents isolated …
  at::Tensor logits(const Batch& batch) const { return logits(batch, Attention::Varlen); }
  // … or by the given path, as training sees them.
  at::Tensor logits(const Batch& batch, Attention path) const;
  // Of the package, with eval_forward = compiled.
  at::Tensor compiled_logits(const Batch& batch) const;
  // Mean loss of the batch, nats per token, of the current weights, documents isolated: fp32,
  // 0-dim.
  at::Tensor loss(const Batch& batch) const;
  // Gradients of the training loss of one batch, in the order of parameters(), on this rank alone;
  // changes nothing. Not with sharding.
  std::vector<at::Tensor> gradients(const Batch& batch);
  // Those that step() would update with: the mean over micro-batches and ranks, before clipping.
  std::vector<at::Tensor> averaged_gradients(const std::vector<Batch>& micro_batches);

  const std::vector<Parameter>& parameters() const { return built_.parameters; }
  NamedTensors weights() const; // share storage with the model; with sharding as state_tensors()
  NamedTensors ema_weights() const;
  // The parameters hold the EMA weights while the result lives. Not with sharding.
  std::unique_ptr<Ema::Scope> use_ema();

  // "model.*", "optimizer.*", "ema.*", "scaler.*", "fp8.*": all that a resumed run needs beside
  // step_index and rng_state. The tensors share storage with the trainer; with sharding they are
  // gathered copies, and the call is collective.
  NamedTensors state_tensors() const;
  // Throws bad input when a tensor is missing or has another shape. A scaler, an EMA or FP8
  // scales that the state lacks because it was saved without keep their values (the EMA then starts
  // from the loaded weights).
  void load_state_tensors(const NamedTensors& tensors);
  // What lasts on this rank: the same, of its pieces with sharding; and the kept 16-bit copies:
  // "weights16.NAME".
  NamedTensors lasting_tensors() const;
  std::string rng_state() const; // raw bytes
  void set_rng_state(const std::string& state);
  // Of planted_spin, over all steps so far.
  std::int64_t planted_wait_ns() const { return hooks_ ? hooks_->waited_ns() : 0; }
  std::int64_t step_index() const { return step_index_; } // optimizer steps made
  void set_step_index(std::int64_t step) { step_index_ = step; }

  std::int64_t skipped_steps() const { return scaler_.skipped_steps(); }
  const LossScaler& scaler() const { return scaler_; }
  const KeptWeights* kept_weights() const { return kept_.get(); } // null: weights16 = cast
  const TrainConfig& config() const { return config_; }

private:
  template <class Run> at::Tensor without_gradients(Run run) const;
  void weights_changed() const; // or will: what was made of them is made again
  at::Tensor backward(const Batch& batch, double weight, Fp8Casts& casts, RankSync* sync);
  at::Tensor accumulate(const std::vector<Batch>& micro_batches);
  at::Tensor finish();
  at::Tensor update();
  at::Tensor separate_passes(const std::vector<at::Tensor>& gradients);
  at::Tensor one_pass(const std::vector<at::Tensor>& gradients);
  StepOutputs run_step(const std::vector<Batch>& micro_batches);
  std::unique_ptr<StepGraphs> make_graphs();
  void after(PlantedWait stage) {
    if (hooks_) hooks_->after(stage);
  }
  std::vector<at::Tensor> take_gradients() const;
  void drop_gradients() const;
  std::vector<at::Tensor> unscaled_gradients();
  // What the optimizer and the average are of: the parameters, or this rank's pieces.
  const std::vector<Parameter>& updated() const;
  at::Tensor clip(const std::vector<at::Tensor>& gradients);
  NamedTensors own_weights() const;
  NamedTensors own_state() const;
  NamedTensors gathered(const NamedTensors& of_pieces) const;
  void scatter(const NamedTensors& whole) const;
  NamedTensors optimizer_state() const;
  NamedTensors fp8_state() const;

  TrainConfig config_;
  at::Generator generator_;
  BuiltModel built_;
  std::shared_ptr<ProcessGroup> ranks_; // null: alone
  std::unique_ptr<RankSync> sync_;      // null: alone
  ShardedParameters* shards_ = nullptr; // sync_, with sharding
  AdamW optimizer_;
  ExpertBalance balance_;
  std::unique_ptr<Muon> muon_; // null: AdamW updates all parameters
  LossScaler scaler_;
  std::unique_ptr<KeptWeights> kept_;         // null: products cast their weights
  std::unique_ptr<Fp8Weights> fp8_weights_;   // null: no FP8
  std::unique_ptr<Fp8Histories> fp8_history_; // null: fp8_scaling = current
  std::unique_ptr<Int8Weights> int8_;         // null: evaluations run as training does
  std::unique_ptr<CompiledModel> compiled_;   // null: evaluations run operator by operator
  Ema ema_;
  OnePass pass_;
  std::unique_ptr<StepHooks> hooks_;   // null: nothing is planted
  std::unique_ptr<StepGraphs> graphs_; // null: step_graph = off
  std::int64_t step_index_ = 0;
};

// Of matrix products under autocast; FP8 casts to bf16 what it does not multiply in 8 bits.
at::ScalarType compute_type(Precision precision);

} // namespace assay
