#include "model/training/update/ema.h"

#include <ATen/core/grad_mode.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>

#include "core/span.h"
#include "kernels/cuda_check.h"
#include "kernels/exchange.h"

namespace assay {

namespace {

// Elements that pass through the scratch at a time on the CPU: 256 KiB of fp32, about half a core's
// L2 cache.
constexpr std::int64_t kExchangeElements = std::int64_t{1} << 16;

void exchange_on_cpu(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scratch) {
  const at::Tensor left = a.view(-1), right = b.view(-1);
  for (std::int64_t begin = 0; begin < left.numel(); begin += kExchangeElements) {
    const std::int64_t size = std::min(kExchangeElements, left.numel() - begin);
    at::Tensor x = left.narrow(0, begin, size), y = right.narrow(0, begin, size),
               kept = scratch.narrow(0, 0, size);
    kept.copy_(x);
    x.copy_(y);
    y.copy_(kept);
  }
}

void exchange_on_cuda(const at::Tensor& a, const at::Tensor& b) {
  launch_exchange(a.mutable_data_ptr(),
                  b.mutable_data_ptr(),
                  a.nbytes(),
                  c10::cuda::getCurrentCUDAStream().stream());
  ASSAY_CUDA(cudaGetLastError());
}

} // namespace

Ema::Ema(const std::vector<Parameter>& parameters, const TrainConfig& config, KeptWeights* copies)
    : decay_(config.ema_decay), method_(config.ema_swap),
      per_parameter_(config.update_pass == UpdatePass::PerParameter), copies_(copies) {
  if (decay_ <= 0) return;
  for (const Parameter& parameter : parameters) {
    names_.push_back(parameter.name);
    weights_.push_back(parameter.tensor);
    average_.push_back(parameter.tensor.detach().clone());
  }
}

void Ema::update() {
  if (weights_.empty()) return;
  const Span span("ema/update");
  const at::NoGradGuard no_grad;
  if (!per_parameter_) {
    at::_foreach_lerp_(average_, weights_, 1.0 - decay_);
    return;
  }
  for (std::size_t i = 0; i < weights_.size(); ++i) average_[i].lerp_(weights_[i], 1.0 - decay_);
}

NamedTensors Ema::state() const {
  NamedTensors state;
  for (std::size_t i = 0; i < names_.size(); ++i)
    state.emplace_back("ema." + names_[i], average_[i]);
  return state;
}

void Ema::swap(bool in) {
  const at::NoGradGuard no_grad;
  if (weights_.empty()) return;
  switch (method_) {
  case EmaSwap::CloneCopy:
    clone_copy(in);
    break;
  case EmaSwap::PointerSwap:
    swap_pointers();
    break;
  case EmaSwap::Exchange:
    exchange();
    break;
  }
  if (copies_ != nullptr) copies_->refresh();
}

void Ema::clone_copy(bool in) {
  const Span span("ema/clone_copy");
  if (in)
    for (const at::Tensor& weight : weights_) saved_.push_back(weight.detach().clone());
  for (std::size_t i = 0; i < weights_.size(); ++i) weights_[i].copy_(in ? average_[i] : saved_[i]);
  if (!in) saved_.clear();
}

void Ema::swap_pointers() {
  const Span span("ema/pointer_swap");
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const at::Tensor weight = weights_[i].detach(); // shares the storage, not the object
    weights_[i].set_data(average_[i].detach());
    average_[i].set_data(weight);
  }
}

void Ema::exchange() {
  const Span span("ema/exchange");
  if (weights_.front().is_cuda()) {
    for (std::size_t i = 0; i < weights_.size(); ++i) exchange_on_cuda(weights_[i], average_[i]);
    return;
  }
  const at::Tensor scratch = at::empty({kExchangeElements}, average_.front().options());
  for (std::size_t i = 0; i < weights_.size(); ++i)
    exchange_on_cpu(weights_[i], average_[i], scratch);
}

} // namespace assay
