#include "model/layers/fp8/fp8_history.h"

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <cmath>

#include "core/result.h"
#include "kernels/cuda_check.h"
#include "kernels/fp8/cast.h"

namespace assay {

namespace {

// As the kernel: kernels/fp8/history.cuh.
void roll_on_cpu(const Fp8Histories& history) {
  const NamedTensors state = history.state();
  auto* slot = static_cast<Fp8Slot*>(state[0].second.data_ptr());
  auto* values = state[1].second.data_ptr<float>();
  for (std::int64_t i = 0; i < state[1].second.size(0); ++i, ++slot) {
    float *begin = values + i * Fp8Histories::kLength, *end = begin + Fp8Histories::kLength;
    const auto place = static_cast<std::int64_t>(slot->place);
    begin[place] = std::isfinite(slot->now) ? slot->now : 0.F;
    const float largest = *std::max_element(begin, end);
    slot->largest = largest > 0 ? largest : 1.F;
    slot->now = 0;
    slot->place = static_cast<float>((place + 1) % Fp8Histories::kLength);
  }
}

} // namespace

Fp8Histories::Fp8Histories(const std::vector<at::Tensor>& parameters) {
  std::int64_t rows = 0;
  for (const at::Tensor& parameter : parameters) {
    if (parameter.dim() != 2) continue;
    places_[parameter.unsafeGetTensorImpl()] = static_cast<std::size_t>(rows);
    rows += 2;
  }
  const at::TensorOptions options =
      parameters.front().options().dtype(at::kFloat).requires_grad(false);
  slots_ = at::zeros({rows, kFp8SlotFloats}, options);
  values_ = at::zeros({rows, kLength}, options);
  for (std::int64_t i = 0; i < rows; ++i) views_.push_back(slots_[i]);
}

const at::Tensor& Fp8Histories::slot(const at::Tensor& weight, Fp8Of of) const {
  const auto place = places_.find(weight.unsafeGetTensorImpl());
  if (place == places_.end()) internal_error("an FP8 linear's weight is no parameter");
  return views_[place->second + (of == Fp8Of::Gradient ? 1 : 0)];
}

void Fp8Histories::roll() {
  seen_a_step_ = true;
  if (!slots_.is_cuda()) return roll_on_cpu(*this);
  const c10::cuda::CUDAGuard guard(slots_.device());
  launch_fp8_roll({static_cast<Fp8Slot*>(slots_.data_ptr()),
                   values_.data_ptr<float>(),
                   static_cast<int>(values_.size(0)),
                   static_cast<int>(kLength)},
                  c10::cuda::getCurrentCUDAStream());
  ASSAY_CUDA(cudaGetLastError());
}

void Fp8Histories::discard() {
  slots_.select(1, 0).zero_();
}

NamedTensors Fp8Histories::state() const {
  return {{"fp8.slots", slots_}, {"fp8.history", values_}};
}

void Fp8Histories::loaded() {
  seen_a_step_ = slots_[0][1].item<float>() > 0; // what a roll writes is above 0
}

} // namespace assay
