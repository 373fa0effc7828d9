#include "model/families/mamba2_layer.h"

#include <cmath>
#include <vector>

#include "core/result.h"
#include "core/span.h"
#include "model/config/shapes/rwmba_shape.h"
#include "model/families/init.h"
#include "model/layers/delta_rule/short_conv.h"
#include "model/layers/fp8/fp8_linear.h"
#include "model/layers/probe.h"
#include "model/layers/rms_norm.h"
#include "model/layers/scan/ssd.h"
#include "model/layout/carry.h"
#include "model/layout/chunk_layout.h"

namespace assay {

namespace {

// Slots of a Carry.
constexpr int kConvolved = 0, kMambaState = 1;

} // namespace

Mamba2Layer::Mamba2Layer(ParameterFactory& make,
                         const std::string& prefix,
                         const TrainConfig& config)
    : heads_(config.heads), head_dim_(kMambaExpand * config.head_dim), state_dim_(config.state_dim),
      form_(config.scan_form) {
  const std::int64_t d = config.d_model, inner = heads_ * head_dim_,
                     convolved = inner + 2 * state_dim_;
  const double bound = 1.0 / std::sqrt(static_cast<double>(config.conv_kernel));
  in_proj_ =
      make.normal(prefix + "in_proj", {inner + convolved + heads_, d}, matrix_std(d, config));
  conv_ = make.uniform(prefix + "conv", {convolved, config.conv_kernel}, -bound, bound);
  a_log_ = make.add(prefix + "a_log", initial_a_log(heads_, make.generator()), false);
  dt_bias_ = make.add(prefix + "dt_bias", initial_dt_bias(heads_, make.generator()), false);
  skip_ = make.ones(prefix + "skip", {heads_});
  norm_ = make.ones(prefix + "norm", {inner});
  out_proj_ = make.normal(prefix + "out_proj", {d, inner}, residual_std(inner, config));
}

at::Tensor Mamba2Layer::forward(const at::Tensor& x, const Segments& segments) const {
  const Span span("mamba2");
  if (segments.chunks == nullptr) internal_error("Mamba-2 needs a prepared batch");
  const std::int64_t tokens = x.size(0), inner = heads_ * head_dim_;
  const std::vector<at::Tensor> parts =
      apply_linear(x, in_proj_).split_with_sizes({inner, inner + 2 * state_dim_, heads_}, 1);
  const at::Tensor convolved =
      segments.carry ? short_conv_piece(segments.carry->with_rows_before(
                                            this, kConvolved, parts[1], conv_.size(1) - 1),
                                        conv_)
                     : short_conv(parts[1], conv_, segments.chunks->taps);
  const std::vector<at::Tensor> in = convolved.split_with_sizes({inner, state_dim_, state_dim_}, 1);
  const at::Tensor step = at::softplus(parts[2] + dt_bias_); // [T, H]
  const at::Tensor values = in[0].reshape({tokens, heads_, head_dim_});
  const at::Tensor scaled = values * step.unsqueeze(2), decay = -step * a_log_.exp(),
                   write = in[1].unsqueeze(1), read = in[2].unsqueeze(1);
  const at::Tensor scanned =
      segments.carry
          ? ssd_piece(scaled, decay, write, read, segments.carry->slot(this, kMambaState))
          : ssd_of(form_)(scaled, decay, write, read, segments);
  if (Probe* const probe = active_probe(); probe != nullptr && segments.carry)
    probe->state("mamba", segments.carry->slot(this, kMambaState));
  const at::Tensor out = scanned + values * skip_.unsqueeze(1);
  return apply_linear(rms_norm(out.reshape({tokens, inner}) * at::silu(parts[0]), norm_),
                      out_proj_);
}

} // namespace assay
