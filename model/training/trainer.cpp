#include "model/training/trainer.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <optional>
#include <unordered_map>

#include "core/result.h"
#include "core/span.h"
#include "model/ddp/gradient_sync.h"
#include "model/ddp/process_group.h"
#include "model/ddp/sharded_parameters.h"
#include "model/ddp/validation.h"
#include "model/layers/autocast.h"
#include "model/layers/fp8/fp8_linear.h"
#include "model/layers/linear/int8_linear.h"
#include "model/layout/segments.h"
#include "model/training/compiled_model.h"

namespace assay {

at::ScalarType compute_type(Precision precision) {
  switch (precision) {
  case Precision::Fp32:
    return at::kFloat;
  case Precision::Bf16:
  case Precision::Fp8:
    return at::kBFloat16;
  case Precision::Fp16:
    return at::kHalf;
  }
  internal_error("unknown precision");
}

namespace {

BuiltModel build(const TrainConfig& config, const at::Generator& generator) {
  return (*value_or_throw(model_families().lookup(config.family))).build(config, generator);
}

// None in fp32, where no product takes 16 bits.
std::unique_ptr<KeptWeights> make_kept_weights(const TrainConfig& config) {
  if (config.weights16 == Weights16::Cast || config.precision == Precision::Fp32) return nullptr;
  const ProductForm form{config.epilogue == Epilogue::All,
                         config.product_choice == ProductChoice::Timed};
  return std::make_unique<KeptWeights>(compute_type(config.precision), form);
}

std::unique_ptr<Fp8Histories> make_fp8_history(const TrainConfig& config,
                                               const std::vector<Parameter>& parameters) {
  const bool delayed =
      config.precision == Precision::Fp8 && config.fp8_scaling == Fp8Scaling::Delayed;
  if (!delayed) return nullptr;
  std::vector<at::Tensor> tensors;
  for (const Parameter& parameter : parameters) tensors.push_back(parameter.tensor);
  return std::make_unique<Fp8Histories>(tensors);
}

const char* level_span(UpdatePass pass) {
  switch (pass) {
  case UpdatePass::PerParameter:
    return "update_pass/per_parameter";
  case UpdatePass::Foreach:
    return "update_pass/foreach";
  case UpdatePass::OnePass:
    return "update_pass/one_pass";
  }
  internal_error("unknown update pass");
}

std::vector<Parameter> of_adamw(const std::vector<Parameter>& parameters,
                                const TrainConfig& config) {
  std::vector<Parameter> kept = parameters;
  if (config.optimizer == OptimizerKind::Muon) std::erase_if(kept, is_matrix_of_layer);
  return kept;
}

// All that a backward pass leaves a gradient in.
std::vector<Parameter> all_of(const BuiltModel& built) {
  std::vector<Parameter> all = built.parameters;
  all.insert(all.end(), built.balances.begin(), built.balances.end());
  return all;
}

// Null: alone.
std::unique_ptr<RankSync> make_sync(const BuiltModel& built,
                                    const TrainConfig& config,
                                    const std::shared_ptr<ProcessGroup>& ranks) {
  const std::int64_t size = ranks ? ranks->size() : 1;
  if (config.ranks != size)
    bad_input("`ranks` is {}, but {} take part; start the run with `assay run`, which starts the "
              "others, or under torchrun with as many processes",
              config.ranks,
              size == 1 ? "no other processes" : std::to_string(size) + " processes");
  if (size == 1) return nullptr;
  if (config.sharding != Sharding::None)
    return std::make_unique<ShardedParameters>(built.parameters, built.balances, config, ranks);
  return std::make_unique<GradientSync>(all_of(built), config, ranks);
}

} // namespace

double StepResult::loss() const {
  return loss_tensor.item<double>();
}
double StepResult::grad_norm() const {
  return grad_norm_tensor.item<double>();
}
bool StepResult::finite() const {
  return std::isfinite(loss());
}

Trainer::Trainer(const TrainConfig& resolved, std::shared_ptr<ProcessGroup> ranks)
    : config_(resolved), generator_(at::make_generator<at::CPUGeneratorImpl>(resolved.seed)),
      built_(build(config_, generator_)), ranks_(std::move(ranks)),
      sync_(make_sync(built_, config_, ranks_)),
      shards_(dynamic_cast<ShardedParameters*>(sync_.get())),
      optimizer_(of_adamw(updated(), config_), config_), balance_(built_.balances, config_),
      muon_(config_.optimizer == OptimizerKind::Muon
                ? std::make_unique<Muon>(built_.parameters, config_)
                : nullptr),
      scaler_(config_, torch_device(config_.device)), kept_(make_kept_weights(config_)),
      fp8_weights_(config_.precision == Precision::Fp8 ? std::make_unique<Fp8Weights>() : nullptr),
      fp8_history_(make_fp8_history(config_, built_.parameters)),
      int8_(config_.eval_linears == EvalLinears::Int8 ? std::make_unique<Int8Weights>() : nullptr),
      compiled_(config_.eval_forward == EvalForward::Compiled
                    ? std::make_unique<CompiledModel>(config_, built_.parameters)
                    : nullptr),
      ema_(updated(), config_, kept_.get()), hooks_(planted_hooks(config_)) {
  if (config_.precision == Precision::Fp8) require_fp8(torch_device(config_.device));
  if (config_.step_graph == StepGraph::On) graphs_ = make_graphs();
}

Trainer::~Trainer() = default;

template <class Run> at::Tensor Trainer::without_gradients(Run run) const {
  const at::NoGradGuard no_grad;
  const AutocastGuard autocast(torch_device(config_.device).type(),
                               compute_type(config_.precision));
  const KeptGuard kept(kept_.get());
  Fp8Casts casts; // the weights may be the EMA's
  const Fp8Guard fp8(config_.precision == Precision::Fp8 ? &casts : nullptr);
  const Int8Guard int8(int8_.get());
  if (!int8_) count("int8/off");
  return run(*built_.model);
}

void Trainer::weights_changed() const {
  if (int8_) int8_->clear();
}

const std::vector<Parameter>& Trainer::updated() const {
  return shards_ != nullptr ? shards_->pieces() : built_.parameters;
}

std::unique_ptr<Ema::Scope> Trainer::use_ema() {
  if (shards_ != nullptr) internal_error("the average of one rank's pieces is no model");
  weights_changed();
  return std::make_unique<Ema::Scope>(ema_);
}

at::Tensor Trainer::logits(const Batch& batch, Attention path) const {
  return without_gradients([&](const Model& model) { return model.forward(batch, path); });
}

at::Tensor Trainer::compiled_logits(const Batch& batch) const {
  if (!compiled_) internal_error("no package was given");
  return compiled_->logits(batch, built_.parameters);
}

at::Tensor Trainer::loss(const Batch& batch) const {
  if (compiled_) return logits_loss(compiled_logits(batch), batch.targets.flatten());
  count("eval_forward/eager");
  return without_gradients(
      [&](const Model& model) { return model.loss(batch, Attention::Varlen, {}); });
}

// Adds the gradients of weight * loss (scaled by the loss scaler) to the parameters, and averages
// the sum over the ranks if `sync` is given; returns weight * loss.
at::Tensor Trainer::backward(const Batch& batch, double weight, Fp8Casts& casts, RankSync* sync) {
  if (shards_ != nullptr && sync == nullptr) internal_error("one rank's pieces make no pass");
  at::Tensor loss;
  if (sync != nullptr) sync->before_forward();
  {
    const Span span("forward");
    if (hooks_) hooks_->before_forward();
    const AutocastGuard autocast(torch_device(config_.device).type(),
                                 compute_type(config_.precision));
    const KeptGuard kept(kept_.get());
    const Fp8Guard fp8(config_.precision == Precision::Fp8 ? &casts : nullptr);
    const LayerHooksGuard layers(shards_);
    loss = built_.model->loss(batch, config_.attention, {weight, scaler_.device_scale()});
    after(PlantedWait::Forward);
  }
  if (weight != 1.0) loss = loss * weight;
  const Span span("backward");
  const at::Tensor scaled = scaler_.scale(loss);
  if (sync != nullptr) sync->before_backward(scaled);
  scaled.backward();
  if (sync != nullptr) sync->after_backward();
  after(PlantedWait::Backward);
  return loss.detach();
}

std::vector<at::Tensor> Trainer::take_gradients() const {
  std::vector<at::Tensor> gradients;
  for (const Parameter& parameter : updated()) {
    if (!parameter.tensor.grad().defined())
      parameter.tensor.mutable_grad() = at::zeros_like(parameter.tensor);
    gradients.push_back(parameter.tensor.grad());
  }
  return gradients;
}

void Trainer::drop_gradients() const {
  for (const Parameter& parameter : updated()) parameter.tensor.mutable_grad().reset();
}

// Backward passes of one step; returns the mean loss.
at::Tensor Trainer::accumulate(const std::vector<Batch>& micro_batches) {
  if (micro_batches.empty()) internal_error("a step needs at least one micro-batch");
  const double weight = 1.0 / static_cast<double>(micro_batches.size());
  Fp8Casts casts(fp8_history_.get(), fp8_weights_.get());
  at::Tensor total;
  for (std::size_t i = 0; i < micro_batches.size(); ++i) {
    const bool averages = sync_ && sync_->averages(i, micro_batches.size());
    const at::Tensor loss =
        backward(micro_batches[i], weight, casts, averages ? sync_.get() : nullptr);
    if (config_.loss_read == LossRead::MicroBatch) {
      const Span span("loss_read/micro_batch");
      (void)loss.item<double>(); // what a print of the loss costs
    }
    total = total.defined() ? total + loss : loss;
  }
  if (config_.loss_read == LossRead::Never) count("loss_read/never");
  return total;
}

at::Tensor Trainer::clip(const std::vector<at::Tensor>& gradients) {
  at::Tensor norm = gradient_norm(gradients, config_.update_pass);
  if (shards_ != nullptr) {
    at::Tensor squares = norm.square();
    shards_->add_up(squares);
    norm = squares.sqrt();
  }
  clip_by_norm(gradients, norm, config_.grad_clip, config_.update_pass, config_.clip_read);
  return norm;
}

at::Tensor Trainer::separate_passes(const std::vector<at::Tensor>& gradients) {
  at::Tensor found_inf = scaler_.unscale(gradients);
  if (shards_ != nullptr && found_inf.defined()) { // an overflow is in one rank's share
    shards_->add_up(found_inf);
    found_inf.clamp_max_(1);
  }
  const at::Tensor norm = clip(gradients);
  optimizer_.step(std::nullopt, found_inf);
  if (muon_) muon_->step(optimizer_.lr(), found_inf);
  if (kept_) kept_->refresh();
  return norm;
}

at::Tensor Trainer::one_pass(const std::vector<at::Tensor>& gradients) {
  const std::vector<AdamW::Moments> moments = optimizer_.moments();
  const std::vector<at::Tensor>& averages = ema_.averages();
  std::vector<PassParameter> parameters;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const at::Tensor& weight = built_.parameters[i].tensor;
    parameters.push_back({weight,
                          gradients[i].contiguous(),
                          moments[i].first,
                          moments[i].second,
                          averages.empty() ? at::Tensor() : averages[i],
                          kept_ ? kept_->find(weight) : at::Tensor(),
                          moments[i].decay});
  }
  return pass_.run(parameters,
                   {optimizer_.lr(),
                    optimizer_.steps(),
                    scaler_.device_scale(),
                    scaler_.found_inf(),
                    config_.beta1,
                    config_.beta2,
                    config_.adam_eps,
                    config_.grad_clip,
                    config_.ema_decay});
}

// Clips the gradients and updates the weights with them; in one pass also their average and copies.
// Returns the gradient norm.
at::Tensor Trainer::update() {
  const Span span("optimizer");
  const Span level(level_span(config_.update_pass));
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> gradients = take_gradients();
  // A graph reads what step() has set.
  if (!graphs_) optimizer_.set_lr(learning_rate(config_, step_index_));
  at::Tensor grad_norm =
      config_.update_pass == UpdatePass::OnePass ? one_pass(gradients) : separate_passes(gradients);
  scaler_.update();
  after(PlantedWait::Optimizer);
  return grad_norm;
}

// What follows the backward passes of a step; returns the gradient norm.
at::Tensor Trainer::finish() {
  at::Tensor grad_norm = update();
  balance_.step();
  after(PlantedWait::Host);
  drop_gradients();
  if (shards_ != nullptr) shards_->pieces_changed();
  if (config_.update_pass != UpdatePass::OnePass) ema_.update();
  after(PlantedWait::Ema);
  return grad_norm;
}

// What a graph contains: the same device work in every step.
StepOutputs Trainer::run_step(const std::vector<Batch>& micro_batches) {
  StepOutputs outputs;
  outputs.loss = accumulate(micro_batches);
  outputs.grad_norm = finish();
  if (fp8_history_) fp8_history_->roll();
  return outputs;
}

std::unique_ptr<StepGraphs> Trainer::make_graphs() {
  std::vector<at::Tensor> fixed;
  for (const Parameter& parameter : built_.parameters) fixed.push_back(parameter.tensor);
  for (const NamedTensors& part :
       {optimizer_state(), balance_.state(), ema_.state(), scaler_.state(), fp8_state()})
    for (const auto& [name, tensor] : part) fixed.push_back(tensor);
  return std::make_unique<StepGraphs>(
      config_, std::move(fixed), [this](const std::vector<Batch>& micro_batches) {
        return run_step(micro_batches);
      });
}

StepResult Trainer::step(const std::vector<Batch>& micro_batches) {
  const Span span("step");
  if (hooks_) hooks_->begin();
  weights_changed();
  StepResult result;
  result.lr = learning_rate(config_, step_index_);
  if (graphs_)
    optimizer_.set_lr(result.lr);
  else
    count("graph/off");
  StepOutputs outputs = graphs_ ? graphs_->step(micro_batches) : run_step(micro_batches);
  result.loss_tensor = std::move(outputs.loss);
  result.grad_norm_tensor = std::move(outputs.grad_norm);
  ++step_index_;
  if (hooks_) hooks_->end();
  return result;
}

StepResult Trainer::update_with(const std::vector<at::Tensor>& gradients) {
  for (std::size_t i = 0; i < updated().size(); ++i) {
    const at::Tensor gradient = shards_ != nullptr ? shards_->part(i, gradients) : gradients[i];
    updated()[i].tensor.mutable_grad() = gradient.clone(); // clipping writes it
  }
  weights_changed();
  StepResult result;
  result.lr = learning_rate(config_, step_index_);
  if (graphs_) optimizer_.set_lr(result.lr);
  result.grad_norm_tensor = finish();
  ++step_index_;
  return result;
}

std::vector<at::Tensor> Trainer::unscaled_gradients() {
  std::vector<at::Tensor> gradients = take_gradients();
  drop_gradients();
  if (shards_ != nullptr) gradients = shards_->whole(gradients);
  balance_.clear();
  const double inverse = 1.0 / scaler_.current_scale();
  for (at::Tensor& gradient : gradients) gradient.mul_(inverse);
  if (fp8_history_) fp8_history_->discard();
  return gradients;
}

std::vector<at::Tensor> Trainer::gradients(const Batch& batch) {
  Fp8Casts casts(fp8_history_.get());
  (void)backward(batch, 1.0, casts, nullptr);
  return unscaled_gradients();
}

std::vector<at::Tensor> Trainer::averaged_gradients(const std::vector<Batch>& micro_batches) {
  (void)accumulate(micro_batches);
  return unscaled_gradients();
}

EvalResult Trainer::evaluate(const std::vector<Batch>& batches) {
  const Span span("evaluate");
  const ValidationRanks mode = config_.validation_ranks;
  const std::vector<Batch> share = sync_ ? validation_share(mode, *ranks_, batches) : batches;
  EvalResult result;
  at::Tensor total =
      at::zeros({}, at::TensorOptions().device(torch_device(config_.device)).dtype(at::kDouble));
  if (!share.empty() || shards_ != nullptr) {
    weights_changed();
    std::optional<Ema::Scope> averaged(std::in_place, ema_);
    if (shards_ != nullptr) shards_->gather_all();
    const at::NoGradGuard no_grad;
    for (const Batch& batch : share) {
      total.add_(loss(batch), static_cast<double>(batch.token_count()));
      result.tokens += batch.token_count();
      result.bytes += batch.bytes;
    }
    averaged.reset();
    if (shards_ != nullptr) shards_->pieces_changed();
    weights_changed();
  }
  if (sync_) {
    const Span sharing(validation_span(mode));
    combine_validation(mode, *ranks_, total, result.tokens, result.bytes);
  }
  if (result.known())
    result.nats_per_token = total.item<double>() / static_cast<double>(result.tokens);
  return result;
}

} // namespace assay
