// A mixture of experts beside a layer's feed-forward: each token takes those few of many small
// SwiGLU feed-forwards that a router scores highest (arXiv 2401.06066; balanced by biases without a
// loss, arXiv 2408.15664). Equations: docs/model.md, "Mixture of experts".
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>

#include "model/config/train_config.h"
#include "model/families/family.h"

namespace assay {

// Of T tokens: which experts each takes [T, k], int64, and with which weights [T, k], wide_type().
struct Choice {
  at::Tensor experts, weights;
};

class Experts {
public:
  Experts() = default; // none
  // Parameters of the layer whose names begin with `prefix`, and the bias of its router.
  Experts(ParameterFactory& make, const std::string& prefix, const TrainConfig& config);

  bool defined() const { return router_.defined(); }

  // What the experts that rows [T, d_model] take add up to: [T, d_model] in product_type(rows).
  at::Tensor run(const at::Tensor& rows) const;

  // With a gradient for scores' weights, and for the bias how many more tokens than the mean an
  // expert took.
  Choice choose(const at::Tensor& rows) const;

private:
  at::Tensor one_by_one(const at::Tensor& rows, const Choice& choice) const;
  at::Tensor grouped(const at::Tensor& rows, const Choice& choice) const;
  at::Tensor gated(const at::Tensor& in) const;

  std::int64_t taken_ = 0;
  ExpertForm form_ = ExpertForm::Grouped;
  FfnGate gate_ = FfnGate::Ops;
  at::Tensor router_;  // [experts, d_model]
  at::Tensor balance_; // [experts]
  at::Tensor in_;      // [experts, 2 expert_dim, d_model]: gate, then value
  at::Tensor out_;     // [experts, d_model, expert_dim]
};

} // namespace assay
