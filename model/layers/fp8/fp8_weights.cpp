#include "model/layers/fp8/fp8_weights.h"

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>

#include "core/span.h"
#include "kernels/cuda_check.h"
#include "kernels/fp8/cast.h"

namespace assay {

namespace {

template <class T> at::Tensor on_device(const std::vector<T>& items, const at::Device& device) {
  return at::from_blob(const_cast<T*>(items.data()),
                       {static_cast<std::int64_t>(items.size() * sizeof(T))},
                       at::kByte)
      .to(device);
}

// Fills all but what is the weight's and the slot's.
Fp8Cast cast_of(const at::Tensor& weight, Fp8Matrix& matrix, float* slot) {
  Fp8Cast cast;
  cast.x = weight.const_data_ptr();
  cast.rows = weight.size(0);
  cast.columns = cast.stride = cast.padded_columns = weight.size(1);
  cast.padded_rows = matrix.by_rows.size(0);
  cast.amax = slot;
  cast.by_rows = matrix.by_rows.mutable_data_ptr();
  cast.by_columns = matrix.by_columns.mutable_data_ptr();
  cast.inverse_scale = matrix.inverse_scale.mutable_data_ptr<float>();
  return cast;
}

} // namespace

void Fp8Weights::add(const at::Tensor& weight) {
  const bool fits = weight.is_cuda() && weight.scalar_type() == at::kFloat &&
                    weight.is_contiguous() && weight.size(1) % kFp8Multiple == 0 &&
                    reinterpret_cast<std::uintptr_t>(weight.const_data_ptr()) % 16 == 0;
  const bool there = std::any_of(weights_.begin(), weights_.end(), [&](const Weight& known) {
    return known.weight.is_same(weight);
  });
  if (fits && !there) weights_.push_back({weight, nullptr, {}});
}

bool Fp8Weights::table_holds() const {
  return made_ == weights_.size() &&
         std::all_of(weights_.begin(), weights_.end(), [](const Weight& known) {
           return known.weight.const_data_ptr() == known.address;
         });
}

void Fp8Weights::make_table() {
  const at::TensorOptions wide = weights_.front().weight.options().requires_grad(false),
                          bytes = wide.dtype(at::kFloat8_e4m3fn);
  slots_ = at::zeros({static_cast<std::int64_t>(weights_.size()), kFp8SlotFloats}, wide);
  std::vector<Fp8Cast> casts;
  std::vector<Fp8Tile> tiles;
  for (Weight& known : weights_) {
    const std::int64_t rows = fp8_padded(known.weight.size(0)), columns = known.weight.size(1);
    const auto i = static_cast<std::int32_t>(casts.size());
    if (!known.matrix.by_rows.defined()) {
      known.matrix.by_rows = at::empty({rows, columns}, bytes);
      known.matrix.by_columns = at::empty({columns, rows}, bytes);
    }
    const at::Tensor slot = slots_[i];
    known.matrix.inverse_scale = slot[kFp8SlotFloats / 2];
    known.address = known.weight.const_data_ptr();
    casts.push_back(cast_of(known.weight, known.matrix, slot.mutable_data_ptr<float>()));
    for (std::int64_t row = 0; row < rows; row += kFp8Tile)
      for (std::int64_t column = 0; column < columns; column += kFp8Tile)
        tiles.push_back({i, static_cast<std::int32_t>(row), static_cast<std::int32_t>(column)});
  }
  casts_ = on_device(casts, slots_.device());
  tiles_ = on_device(tiles, slots_.device());
  made_ = weights_.size();
}

void Fp8Weights::cast() {
  if (weights_.empty()) return;
  const c10::cuda::CUDAGuard guard(weights_.front().weight.device());
  if (table_holds())
    slots_.zero_();
  else
    make_table();
  count("fp8/weight_cast", static_cast<std::int64_t>(made_));
  launch_fp8_casts(
      static_cast<const Fp8Cast*>(casts_.const_data_ptr()),
      static_cast<const Fp8Tile*>(tiles_.const_data_ptr()),
      static_cast<unsigned>(tiles_.numel() / static_cast<std::int64_t>(sizeof(Fp8Tile))),
      c10::cuda::getCurrentCUDAStream());
  ASSAY_CUDA(cudaGetLastError());
}

const Fp8Matrix* Fp8Weights::find(const at::Tensor& weight) const {
  for (std::size_t i = 0; i < made_; ++i)
    if (weights_[i].weight.is_same(weight)) return &weights_[i].matrix;
  return nullptr;
}

} // namespace assay
