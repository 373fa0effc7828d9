#include "model/layers/delta_rule/delta_inputs.h"

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/autograd/custom_function.h>

#include <memory>
#include <vector>

#include "core/result.h"
#include "core/span.h"
#include "kernels/cuda_check.h"
#include "kernels/delta_rule/delta_rule.h"
#include "model/layers/autocast.h"
#include "model/layers/autograd_holder.h"
#include "model/layers/bf16_data.h"
#include "model/layers/delta_rule/short_conv.h"
#include "model/layers/rms_norm.h"
#include "model/layout/chunk_layout.h"

namespace assay {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;
using LayoutPtr = std::shared_ptr<const ChunkLayout>;

struct Sizes {
  std::int64_t tokens, heads, width, inner; // inner: columns of q, of k, of v and of the gate
};
Sizes sizes_of(const at::Tensor& projected, const at::Tensor& a_log) {
  const std::int64_t heads = a_log.size(0), inner = (projected.size(1) - 2 * heads) / 4;
  return {projected.size(0), heads, inner / heads, inner};
}

const ChunkLayout& layout_of(const Segments& segments) {
  if (segments.chunks == nullptr)
    internal_error("the inputs of the delta rule need a prepared batch");
  return *segments.chunks;
}

struct InputGradients {
  at::Tensor projected, conv, a_log, dt_bias;
};

// --- On a GPU ------------------------------------------------------------------------------------

bool takes_kernels(const at::Tensor& projected, const DeltaInputWeights& w) {
  return projected.is_cuda() && projected.scalar_type() == at::kBFloat16 &&
         delta_rule::inputs_fit(
             sizes_of(projected, w.a_log).width, w.a_log.size(0), w.conv.size(1));
}

// `projected` as the kernels read it, rows at multiples of 8 bytes: a copy with wider rows where
// they are not.
at::Tensor readable_rows(const at::Tensor& projected) {
  const bool fits = projected.stride(1) == 1 && projected.stride(0) % 4 == 0 &&
                    reinterpret_cast<std::uintptr_t>(projected.const_data_ptr()) % 8 == 0;
  return fits ? projected : at::constant_pad_nd(projected, {0, (8 - projected.size(1) % 8) % 8});
}

delta_rule::RuleInputs problem_of(const at::Tensor& rows,
                                  const DeltaInputWeights& w,
                                  const ChunkLayout& layout,
                                  const Sizes& size) {
  delta_rule::RuleInputs p{};
  p.projected = bf16_data(rows);
  p.conv = w.conv.const_data_ptr<float>(), p.a_log = w.a_log.const_data_ptr<float>();
  p.dt_bias = w.dt_bias.const_data_ptr<float>();
  p.position = layout.position.const_data_ptr<std::int32_t>();
  p.tokens = static_cast<int>(size.tokens), p.heads = static_cast<int>(size.heads);
  p.row = static_cast<int>(rows.stride(0));
  return p;
}

// `rows`: readable_rows(projected).
DeltaRuleInputs device_forward(const at::Tensor& rows,
                               const DeltaInputWeights& w,
                               const ChunkLayout& layout,
                               const Sizes& size) {
  const c10::cuda::CUDAGuard guard(rows.device());
  const auto made = [&] {
    return at::empty({size.tokens, size.heads, size.width}, rows.options());
  };
  DeltaRuleInputs out{made(), made(), made(), {}, {}, {}};
  out.g = at::empty({size.tokens, size.heads}, w.a_log.options());
  out.beta = at::empty_like(out.g);
  delta_rule::RuleInputs p = problem_of(rows, w, layout, size);
  p.q = bf16_data(out.q), p.k = bf16_data(out.k), p.v = bf16_data(out.v);
  p.g = out.g.data_ptr<float>(), p.beta = out.beta.data_ptr<float>();
  p.walk = delta_rule::forward_walk(p.tokens);
  delta_rule::launch_inputs(p, static_cast<int>(size.width), c10::cuda::getCurrentCUDAStream());
  check_cuda(cudaGetLastError(), "inputs of the delta rule, forward");
  return out;
}

InputGradients device_backward(const at::Tensor& rows,
                               const DeltaInputWeights& w,
                               const ChunkLayout& layout,
                               const Sizes& size,
                               const tensor_list& grads) {
  const c10::cuda::CUDAGuard guard(rows.device());
  const auto half = [](const at::Tensor& x) { return x.to(at::kBFloat16).contiguous(); };
  const auto full = [](const at::Tensor& x) { return x.to(at::kFloat).contiguous(); };
  const at::Tensor dq = half(grads[0]), dk = half(grads[1]), dv = half(grads[2]),
                   dg = full(grads[3]), d_beta = full(grads[4]);
  at::Tensor d_rows = at::empty_strided(rows.sizes(), rows.strides(), rows.options());
  delta_rule::RuleInputGradients b{};
  b.forward = problem_of(rows, w, layout, size);
  b.forward.walk = delta_rule::backward_walk(b.forward.tokens);
  const std::int64_t walks = delta_rule::walks_of(b.forward.tokens, b.forward.walk);
  at::Tensor conv = at::empty({walks, w.conv.size(0), w.conv.size(1)}, w.conv.options()),
             decay = at::empty({walks, 2, size.heads}, w.conv.options());
  b.dq = bf16_data(dq), b.dk = bf16_data(dk), b.dv = bf16_data(dv);
  b.dg = dg.const_data_ptr<float>(), b.d_beta = d_beta.const_data_ptr<float>();
  b.d_projected = bf16_data(d_rows);
  b.partial_conv = conv.data_ptr<float>(), b.partial_decay = decay.data_ptr<float>();
  delta_rule::launch_inputs_backward(
      b, static_cast<int>(size.width), c10::cuda::getCurrentCUDAStream());
  check_cuda(cudaGetLastError(), "inputs of the delta rule, backward");
  d_rows.narrow(1, 3 * size.inner, size.inner).copy_(grads[5].reshape({size.tokens, size.inner}));
  const at::Tensor decays = decay.sum(0);
  return {d_rows.narrow(1, 0, 4 * size.inner + 2 * size.heads), conv.sum(0), decays[0], decays[1]};
}

// --- Anywhere ------------------------------------------------------------------------------------

// What both passes compute of `projected`, in fp32 or fp64.
struct Wide {
  at::Tensor x, sum, shape, u,
      inverse;                  // of q, k, v: columns, s, sigmoid(s), silu(s); 1 / |u| of q, k
  at::Tensor decay, rate, beta; // before its softplus; -exp(a_log); sigmoid

  Wide(const at::Tensor& projected,
       const DeltaInputWeights& w,
       const ChunkLayout& layout,
       const Sizes& size) {
    const at::ScalarType type = wide_type(projected);
    const auto columns = [&](std::int64_t first, std::int64_t count) {
      return projected.narrow(1, first, count).to(type);
    };
    x = columns(0, 3 * size.inner);
    sum = tap_sums(x, w.conv, layout.taps);
    shape = sum.sigmoid();
    u = sum * shape;
    inverse = heads(u.narrow(1, 0, 2 * size.inner), size).square().sum(-1, true);
    inverse.add_(kNormEps).rsqrt_();
    decay = columns(4 * size.inner, size.heads) + w.dt_bias;
    rate = -w.a_log.exp();
    beta = columns(4 * size.inner + size.heads, size.heads).sigmoid();
  }
  static at::Tensor heads(const at::Tensor& x, const Sizes& size) {
    return x.reshape({size.tokens, -1, size.width});
  }
};

DeltaRuleInputs plain_forward(const at::Tensor& projected,
                              const DeltaInputWeights& w,
                              const ChunkLayout& layout,
                              const Sizes& size) {
  const Wide wide(projected, w, layout, size);
  const at::ScalarType type = projected.scalar_type();
  const at::Tensor u = Wide::heads(wide.u, size);
  const std::vector<at::Tensor> qk =
      (u.narrow(1, 0, 2 * size.heads) * wide.inverse).to(type).chunk(2, 1);
  return {qk[0],
          qk[1],
          u.narrow(1, 2 * size.heads, size.heads).to(type),
          wide.rate * at::softplus(wide.decay),
          wide.beta,
          {}};
}

// The formulas of kernels/delta_rule/inputs_backward.cuh.
InputGradients plain_backward(const at::Tensor& projected,
                              const DeltaInputWeights& w,
                              const ChunkLayout& layout,
                              const Sizes& size,
                              const tensor_list& grads) {
  const Wide wide(projected, w, layout, size);
  const at::ScalarType type = wide.x.scalar_type();
  const auto flat = [&](const at::Tensor& x) { return x.reshape({size.tokens, -1}); };
  const at::Tensor dy = at::cat({grads[0], grads[1]}, 1).to(type),
                   u = Wide::heads(wide.u, size).narrow(1, 0, 2 * size.heads);
  const at::Tensor along = (u * dy).sum(-1, true) * wide.inverse.square();
  const at::Tensor d_u =
      at::cat({flat((dy - u * along) * wide.inverse), flat(grads[2].to(type))}, 1);
  const TapGradients d =
      tap_gradients(d_u * (wide.shape + wide.u * (1 - wide.shape)), wide.x, w.conv, layout.taps);
  const at::Tensor through = grads[3] * wide.rate, d_decay = through * wide.decay.sigmoid(),
                   d_rate = grads[4] * wide.beta * (1 - wide.beta);
  const auto narrow = [&](const at::Tensor& x) { return x.to(projected.scalar_type()); };
  return {at::cat({narrow(d.x), narrow(flat(grads[5])), narrow(d_decay), narrow(d_rate)}, 1),
          d.weight,
          (through * at::softplus(wide.decay)).sum(0),
          d_decay.sum(0)};
}

// -------------------------------------------------------------------------------------------------

struct FusedDeltaInputs : torch::autograd::Function<FusedDeltaInputs> {
  // Returns q, k, v, g, beta, gate.
  static tensor_list forward(AutogradContext* ctx,
                             const at::Tensor& projected,
                             const at::Tensor& conv,
                             const at::Tensor& a_log,
                             const at::Tensor& dt_bias,
                             const LayoutPtr& layout) {
    const Span span("delta_inputs/fused");
    const AutocastGuard full_precision(projected.device().type(), at::kFloat);
    const DeltaInputWeights w{conv, a_log, dt_bias};
    const Sizes size = sizes_of(projected, a_log);
    const bool device = takes_kernels(projected, w);
    const at::Tensor rows = device ? readable_rows(projected) : projected;
    const DeltaRuleInputs out =
        device ? device_forward(rows, w, *layout, size) : plain_forward(rows, w, *layout, size);
    ctx->save_for_backward({rows, conv, a_log, dt_bias});
    ctx->saved_data["layout"] = hold(layout);
    ctx->saved_data["device"] = device;
    const at::Tensor gate =
        projected.narrow(1, 3 * size.inner, size.inner).view({size.tokens, size.heads, size.width});
    return {out.q, out.k, out.v, out.g, out.beta, gate};
  }

  static tensor_list backward(AutogradContext* ctx, const tensor_list& grads) {
    const AutocastGuard full_precision(grads[0].device().type(), at::kFloat);
    const tensor_list saved = ctx->get_saved_variables();
    const DeltaInputWeights w{saved[1], saved[2], saved[3]};
    const ChunkLayout& layout = held<ChunkLayout>(ctx->saved_data["layout"]);
    const std::int64_t heads = grads[0].size(1), width = grads[0].size(2);
    const Sizes size{grads[0].size(0), heads, width, heads * width}; // `rows` may have more columns
    const InputGradients d = ctx->saved_data["device"].toBool()
                                 ? device_backward(saved[0], w, layout, size, grads)
                                 : plain_backward(saved[0], w, layout, size, grads);
    return {d.projected, d.conv, d.a_log, d.dt_bias, at::Tensor()};
  }
};

// Columns of `projected` for q, k and v together, gate, decay, rate.
std::vector<at::Tensor> columns_of(const at::Tensor& projected, const Sizes& size) {
  return projected.split_with_sizes({3 * size.inner, size.inner, size.heads, size.heads}, 1);
}

DeltaRuleInputs from_columns(const at::Tensor& convolved,
                             const std::vector<at::Tensor>& columns,
                             const DeltaInputWeights& weights,
                             const Sizes& size) {
  const auto [tokens, heads, width, inner] = size;
  const std::vector<at::Tensor> qkv = convolved.split_with_sizes({2 * inner, inner}, 1);
  const std::vector<at::Tensor> qk =
      l2_norm(qkv[0].reshape({tokens, 2 * heads, width})).chunk(2, 1);
  const at::ScalarType type = wide_type(columns[2]);
  return {qk[0],
          qk[1],
          qkv[1].reshape({tokens, heads, width}),
          -weights.a_log.exp() * at::softplus(columns[2].to(type) + weights.dt_bias),
          columns[3].to(type).sigmoid(),
          columns[1].view({tokens, heads, width})};
}

} // namespace

DeltaRuleInputs delta_inputs_ops(const at::Tensor& projected,
                                 const DeltaInputWeights& weights,
                                 const Segments& segments) {
  const Span span("delta_inputs/ops");
  const ChunkLayout& layout = layout_of(segments);
  const Sizes size = sizes_of(projected, weights.a_log);
  const std::vector<at::Tensor> columns = columns_of(projected, size);
  return from_columns(short_conv(columns[0], weights.conv, layout.taps), columns, weights, size);
}

DeltaRuleInputs delta_inputs_of(const at::Tensor& convolved,
                                const at::Tensor& projected,
                                const DeltaInputWeights& weights) {
  const Sizes size = sizes_of(projected, weights.a_log);
  return from_columns(convolved, columns_of(projected, size), weights, size);
}

DeltaRuleInputs delta_inputs_fused(const at::Tensor& projected,
                                   const DeltaInputWeights& weights,
                                   const Segments& segments) {
  (void)layout_of(segments);
  const tensor_list out = FusedDeltaInputs::apply(
      projected, weights.conv, weights.a_log, weights.dt_bias, segments.chunks);
  return {out[0], out[1], out[2], out[3], out[4], out[5]};
}

} // namespace assay
