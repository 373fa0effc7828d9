#include "model/families/gated_deltanet.h"

#include <cmath>

#include "core/span.h"
#include "model/families/init.h"
#include "model/layers/add_norm.h"
#include "model/layers/delta_rule/delta_inputs.h"
#include "model/layers/delta_rule/gated_delta_rule.h"
#include "model/layers/delta_rule/short_conv.h"
#include "model/layers/fp8/fp8_linear.h"
#include "model/layers/probe.h"
#include "model/layers/rms_norm.h"
#include "model/layout/carry.h"

namespace assay {

namespace {

// Slots of a Carry.
constexpr int kDeltaConvolved = 0, kDeltaState = 1;

} // namespace

GatedDeltaNet::GatedDeltaNet(ParameterFactory& make,
                             const std::string& prefix,
                             const TrainConfig& config)
    : heads_(config.heads), head_dim_(config.head_dim), form_(config.delta_form),
      inputs_(config.delta_inputs), bf16_inputs_(config.bf16_delta_inputs),
      guard_(config.bf16_guard), norms_(config.norms) {
  const std::int64_t inner = heads_ * head_dim_;
  const double conv_bound = 1.0 / std::sqrt(static_cast<double>(config.conv_kernel));
  in_proj_ = make.normal(prefix + "in_proj",
                         {4 * inner + 2 * heads_, config.d_model},
                         matrix_std(config.d_model, config));
  conv_ = make.uniform(prefix + "conv", {3 * inner, config.conv_kernel}, -conv_bound, conv_bound);
  a_log_ = make.add(prefix + "a_log", initial_a_log(heads_, make.generator()), false);
  dt_bias_ = make.add(prefix + "dt_bias", initial_dt_bias(heads_, make.generator()), false);
  norm_ = make.ones(prefix + "norm", {head_dim_});
  out_proj_ =
      make.normal(prefix + "out_proj", {config.d_model, inner}, residual_std(inner, config));
}

// What `bf16_guard` compares: the cast without a test, or behind one. Counts the copies that were
// really made.
at::Tensor GatedDeltaNet::guard_cast(const at::Tensor& x) const {
  if (!bf16_inputs_) return x;
  at::Tensor y = x;
  if (guard_ == Bf16Guard::CastAlways) {
    const Span span("cast/always");
    y = x.to(at::kBFloat16);
  } else {
    const Span span("cast/if_needed");
    if (x.scalar_type() != at::kBFloat16) y = x.to(at::kBFloat16);
  }
  count("copies/bf16_cast", y.const_data_ptr() == x.const_data_ptr() ? 0 : 1);
  return y;
}

DeltaRuleInputs GatedDeltaNet::rule_inputs(const at::Tensor& projected,
                                           const Segments& segments) const {
  const DeltaInputWeights weights{conv_, a_log_, dt_bias_};
  if (segments.carry) {
    const at::Tensor joined = segments.carry->with_rows_before(
        this, kDeltaConvolved, projected.narrow(1, 0, conv_.size(0)), conv_.size(1) - 1);
    return delta_inputs_of(short_conv_piece(joined, conv_), projected, weights);
  }
  return inputs_ == DeltaInputs::Fused ? delta_inputs_fused(projected, weights, segments)
                                       : delta_inputs_ops(projected, weights, segments);
}

at::Tensor GatedDeltaNet::forward(const at::Tensor& x, const Segments& segments) const {
  const Span span("gated_deltanet");
  const at::Tensor projected = apply_linear(x, in_proj_);
  const DeltaRuleInputs in = rule_inputs(projected, segments);
  const at::Tensor q = guard_cast(in.q), k = guard_cast(in.k), v = guard_cast(in.v);
  at::Tensor out;
  if (segments.carry) {
    at::Tensor& state = segments.carry->slot(this, kDeltaState);
    out = gated_delta_rule_piece(q, k, v, in.g, in.beta, state);
    if (Probe* const probe = active_probe(); probe != nullptr) probe->state("delta", state);
  } else {
    out = delta_rule_of(form_)(q, k, v, in.g, in.beta, segments);
  }
  const at::Tensor gated = norms_ == Norms::Fused ? gated_norm(out, in.gate, norm_, out_proj_)
                                                  : rms_norm(out, norm_) * at::silu(in.gate);
  return apply_linear(gated.reshape({x.size(0), heads_ * head_dim_}), out_proj_);
}

} // namespace assay
