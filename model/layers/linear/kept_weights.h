// 16-bit copies of the weights that products take (optimization `weights16`). A copy is made on its
// first use and kept: whoever changes the weights writes the copies too, or calls refresh().
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <unordered_map>
#include <vector>

#include "model/layers/linear/product.h"

namespace assay {

class KeptWeights {
public:
  // `type`: kBFloat16 or kHalf. `form`: of the products that take the copies.
  explicit KeptWeights(at::ScalarType type, ProductForm form = {}) : type_(type), form_(form) {}

  const at::Tensor& of(const at::Tensor& weight);  // its copy, made now if there is none
  at::Tensor find(const at::Tensor& weight) const; // undefined if there is none
  void refresh();                                  // rounds all weights again
  at::ScalarType type() const { return type_; }
  ProductForm form() const { return form_; }
  std::size_t size() const { return copies_.size(); }

private:
  struct Copy {
    at::Tensor weight, copy;
  };
  at::ScalarType type_;
  ProductForm form_;
  std::unordered_map<const at::TensorImpl*, Copy> copies_; // set_data() keeps a weight's impl
};

// Products take the copies while one lives on this thread; null: they cast.
class KeptGuard {
public:
  explicit KeptGuard(KeptWeights* weights);
  ~KeptGuard();
  KeptGuard(const KeptGuard&) = delete;
  KeptGuard& operator=(const KeptGuard&) = delete;

private:
  KeptWeights* outer_;
};

KeptWeights* kept_weights_of_thread(); // of the innermost guard; null: products cast

// Whether the products on this thread choose their algorithm by timing.
bool products_timed();

// The weight in `type`, which a product is computed in: its kept copy, or a cast. Without gradient.
// Counts "weights16/kept" or "weights16/cast".
at::Tensor product_weight(const at::Tensor& weight, at::ScalarType type);

// x W^T + bias outside of FP8: [T, in], [out, in] and [out], or undefined, give [T, out]. By a kept
// copy, or at::linear under autocast. Counts as product_weight().
at::Tensor linear16(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {});

// The same with a product for every matrix that `cut` makes of W [out, in], of its kept copy alike
// and of the bias, whose rows it cuts in the same way (optimization `projections`).
using Cut = std::function<std::vector<at::Tensor>(const at::Tensor&)>;
std::vector<at::Tensor> split_linear(const at::Tensor& x,
                                     const at::Tensor& weight,
                                     const Cut& cut,
                                     const at::Tensor& bias = {});

// x W^T + bias in the type of `copy`, which is W rounded: y and dx have that type (dx then x's), dW
// comes in W's type from the product, without rounding to the copy's, and the bias's gradient in
// its type from the sum over tokens. The bias, or undefined, is rounded for every use. A product
// that adds a bias is not timed.
at::Tensor kept_linear(const at::Tensor& x,
                       const at::Tensor& weight,
                       const at::Tensor& copy,
                       const at::Tensor& bias = {},
                       ProductForm form = {});

// Of y = x W^T + bias in `type`, of x and dy in one narrower type or in it: dW = dy^T x, and the
// sum of dy over tokens where `bias`, else undefined.
struct LinearGradients {
  at::Tensor weight, bias;
};
// `form.sum`: on a GPU dW's product sums dy too, which takes bf16, fp32 gradients and widths in
// multiples of 8; others are summed after it, and count "fallback/epilogue" (core/fallback.h).
LinearGradients linear_gradients(
    const at::Tensor& dy, const at::Tensor& x, at::ScalarType type, bool bias, ProductForm form);

} // namespace assay
