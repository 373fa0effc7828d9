// Products of matrices in 16 bits, by the algorithm that cuBLAS proposes or by the fastest of eight
// (optimization `product_choice`).
#pragma once

#include <ATen/ATen.h>

namespace assay {

// How the products of linears and of the loss head run.
struct ProductForm {
  bool sum = false;   // a weight gradient's product sums its bias's too (epilogue = all)
  bool timed = false; // product_choice = timed
};

// a b: [M, K] and [K, N], each of any strides, of one type. The result has `type`, which is theirs
// or fp32; sums are in fp32. Counts "product_choice/heuristic". With `timed`, bf16 on a GPU that
// cuBLASLt takes counts "product_choice/timed", and anything else "fallback/product_choice"
// (core/fallback.h).
at::Tensor product(const at::Tensor& a, const at::Tensor& b, at::ScalarType type, bool timed);

// a b + bias, [N], all of one type of 16 bits, rounded once.
at::Tensor
biased_product(const at::Tensor& bias, const at::Tensor& a, const at::Tensor& b, bool timed);

// out = a b; with `add` out += a b. `out` [M, N] has one of those types and rows one after another.
void product_out(
    const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, bool add, bool timed);

} // namespace assay
