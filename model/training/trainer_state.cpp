// The state of a Trainer: by name, for checkpoints, gates and the other ranks.
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <unordered_map>

#include "core/result.h"
#include "model/ddp/sharded_parameters.h"
#include "model/layers/fp8/fp8_linear.h"
#include "model/layers/linear/int8_linear.h"
#include "model/training/trainer.h"

namespace assay {

namespace {

// In front of the names of tensors that have parameters' shapes, or pieces'.
constexpr std::array<const char*, 4> kOfParameters{
    "model.", "optimizer.exp_avg.", "optimizer.exp_avg_sq.", "ema."};

} // namespace

// Of tensors of the pieces, named behind one of these prefixes: the parameters', and the rest as
// it is.
NamedTensors Trainer::gathered(const NamedTensors& of_pieces) const {
  if (shards_ == nullptr) return of_pieces;
  const std::vector<Parameter>& pieces = updated();
  std::unordered_map<std::string, at::Tensor> given(of_pieces.begin(), of_pieces.end());
  NamedTensors all;
  for (const char* prefix : kOfParameters) {
    if (!given.contains(prefix + pieces.front().name)) continue;
    std::vector<at::Tensor> parts;
    for (const Parameter& piece : pieces)
      parts.push_back(given.extract(prefix + piece.name).mapped());
    const std::vector<at::Tensor> whole = shards_->whole(parts);
    for (std::size_t i = 0; i < whole.size(); ++i)
      all.emplace_back(prefix + built_.parameters[i].name, whole[i]);
  }
  for (const auto& [name, tensor] : of_pieces)
    if (given.contains(name)) all.emplace_back(name, tensor);
  return all;
}

// Back into the pieces.
void Trainer::scatter(const NamedTensors& whole) const {
  if (shards_ == nullptr) return;
  const std::unordered_map<std::string, at::Tensor> given(whole.begin(), whole.end());
  const NamedTensors own = own_state();
  std::unordered_map<std::string, at::Tensor> targets(own.begin(), own.end());
  for (const char* prefix : kOfParameters) {
    std::vector<at::Tensor> tensors;
    for (const Parameter& parameter : built_.parameters)
      if (const auto found = given.find(prefix + parameter.name); found != given.end())
        tensors.push_back(found->second);
    for (std::size_t i = 0; i < updated().size() && !tensors.empty(); ++i)
      targets.at(prefix + updated()[i].name).copy_(shards_->part(i, tensors));
  }
  shards_->pieces_changed();
}

NamedTensors Trainer::own_weights() const {
  NamedTensors weights;
  for (const Parameter& parameter : updated())
    weights.emplace_back("model." + parameter.name, parameter.tensor.detach());
  return weights;
}

NamedTensors Trainer::weights() const {
  return gathered(own_weights());
}

NamedTensors Trainer::ema_weights() const {
  return gathered(ema_.state());
}

NamedTensors Trainer::optimizer_state() const {
  NamedTensors state = optimizer_.state();
  if (muon_) std::ranges::copy(muon_->state(), std::back_inserter(state));
  return state;
}

NamedTensors Trainer::fp8_state() const {
  return fp8_history_ ? fp8_history_->state() : NamedTensors();
}

NamedTensors Trainer::own_state() const {
  NamedTensors state = own_weights();
  for (const NamedTensors& part :
       {balance_.state(), optimizer_state(), ema_.state(), scaler_.state(), fp8_state()})
    state.insert(state.end(), part.begin(), part.end());
  return state;
}

NamedTensors Trainer::state_tensors() const {
  return gathered(own_state());
}

NamedTensors Trainer::lasting_tensors() const {
  NamedTensors all = own_state();
  if (config_.sharding == Sharding::Optimizer)
    for (const Parameter& parameter : built_.parameters)
      all.emplace_back("model." + parameter.name, parameter.tensor.detach());
  for (const Parameter& parameter : built_.parameters)
    if (kept_)
      if (at::Tensor copy = kept_->find(parameter.tensor); copy.defined())
        all.emplace_back("weights16." + parameter.name, std::move(copy));
  return all;
}

void Trainer::load_state_tensors(const NamedTensors& tensors) {
  const at::NoGradGuard no_grad;
  std::unordered_map<std::string, at::Tensor> given(tensors.begin(), tensors.end());
  const std::string scaler = "scaler.", ema = "ema.", fp8 = "fp8.";
  const NamedTensors targets = state_tensors();
  for (const auto& [name, target] : targets) {
    auto found = given.find(name);
    if (found == given.end() && name.starts_with(ema))
      found = given.find("model." + name.substr(ema.size()));
    if (found == given.end() && (name.starts_with(scaler) || name.starts_with(fp8))) continue;
    if (found == given.end())
      bad_input("the state has no tensor '{}': it was saved by another model", name);
    if (found->second.sizes() != target.sizes())
      bad_input("tensor '{}' of the state has another shape than the model's", name);
    target.copy_(found->second);
  }
  scatter(targets);
  weights_changed();
  if (kept_) kept_->refresh();
  if (fp8_history_) fp8_history_->loaded();
}

std::string Trainer::rng_state() const {
  const at::Tensor state = generator_.get_state();
  return {static_cast<const char*>(state.const_data_ptr()), state.nbytes()};
}

void Trainer::set_rng_state(const std::string& state) {
  const at::Tensor current = generator_.get_state();
  if (current.nbytes() != state.size())
    bad_input("the random generator's state has {} bytes, not {}", state.size(), current.nbytes());
  at::Tensor bytes = at::empty_like(current);
  std::memcpy(bytes.mutable_data_ptr(), state.data(), state.size());
  generator_.set_state(bytes);
}

} // namespace assay
