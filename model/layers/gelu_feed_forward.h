// A feed-forward with GELU as one function, whose products compute GELU too (optimization
// `epilogue`).
#pragma once

#include <ATen/ATen.h>

#include "model/config/train_config.h"

namespace assay {

struct GeluWeights {
  at::Tensor in, in_bias;   // [hidden, width], [hidden]
  at::Tensor out, out_bias; // [width, hidden], [width]
};

// gelu(x in^T + in_bias) out^T + out_bias, GELU in the tanh form: x [T, width] -> [T, width] in
// what a product of x is computed in. Opens span "epilogue/<level>". On a GPU cuBLASLt takes bf16
// and widths in multiples of 8; elsewhere LibTorch's operators, GELU in fp32 (fp64 from fp64).
// Keeps x, GELU's input and its result. Undefined, and "epilogue/none" counted: the caller computes
// it another way, which `epilogue` asks for, or which what cuBLASLt does not take falls back to
// ("fallback/epilogue", core/fallback.h).
at::Tensor gelu_feed_forward(const at::Tensor& x, const GeluWeights& weights, Epilogue epilogue);

} // namespace assay
