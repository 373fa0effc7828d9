// The types of a custom autograd function's inputs, kept for their gradients.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace assay {

inline c10::IValue types_of(at::TensorList inputs) {
  std::vector<std::int64_t> types;
  for (const at::Tensor& x : inputs) types.push_back(static_cast<std::int64_t>(x.scalar_type()));
  return types;
}

// Gradients of the inputs in their types, and none of one input behind them, which is no tensor.
inline std::vector<at::Tensor> of_types(std::vector<at::Tensor> gradients,
                                        const c10::IValue& types) {
  const std::vector<std::int64_t> kept = types.toIntVector();
  for (std::size_t i = 0; i < kept.size(); ++i)
    gradients[i] = gradients[i].to(static_cast<at::ScalarType>(kept[i]));
  gradients.emplace_back();
  return gradients;
}

} // namespace assay
