#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/autograd/custom_function.h>

#include "core/span.h"
#include "kernels/cuda_check.h"
#include "kernels/nsa/inputs.h"
#include "model/layers/autocast.h"
#include "model/layers/autograd_holder.h"
#include "model/layers/bf16_data.h"
#include "model/nsa/nsa_inputs.h"
#include "model/nsa/selected_attention.h"

namespace assay {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

// Inputs of the function, in this order, and their gradients.
enum MixInput {
  kCompressedOut,
  kSelectedOut,
  kWindowOut,
  kGroupMean,
  kGateIn,
  kGateInBias,
  kGateOut,
  kGateOutBias,
  kMixInputs
};

// --- kernels -------------------------------------------------------------------------------------

nsa::Mix mix_problem(const tensor_list& x, const NsaLayout& layout) {
  const auto half = [&](MixInput i) { return static_cast<const bf16*>(x[i].const_data_ptr()); };
  const auto full = [&](MixInput i) { return x[i].const_data_ptr<float>(); };
  nsa::Mix p{};
  p.o_places = half(kCompressedOut), p.o_selected = half(kSelectedOut),
  p.o_window = half(kWindowOut);
  p.mean = full(kGroupMean), p.in = full(kGateIn), p.in_bias = full(kGateInBias);
  p.out = full(kGateOut), p.out_bias = full(kGateOutBias);
  p.place = layout.strided_place.const_data_ptr<std::int64_t>();
  p.tokens = static_cast<int>(x[kSelectedOut].size(0)),
  p.heads = static_cast<int>(x[kSelectedOut].size(1));
  p.groups = static_cast<int>(x[kGroupMean].size(1)), p.gate = static_cast<int>(x[kGateIn].size(0));
  p.stride = static_cast<int>(layout.shape.stride);
  return p;
}

at::Tensor device_mix(const tensor_list& x, const NsaLayout& layout) {
  const c10::cuda::CUDAGuard guard(x[kSelectedOut].device());
  at::Tensor y = at::empty_like(x[kSelectedOut]);
  nsa::Mix p = mix_problem(x, layout);
  p.y = bf16_data(y);
  nsa::launch_mix(p, c10::cuda::getCurrentCUDAStream());
  check_cuda(cudaGetLastError(), "gates and mix of sparse attention, forward");
  return y;
}

tensor_list
device_mix_backward(const tensor_list& x, const at::Tensor& grad, const NsaLayout& layout) {
  const c10::cuda::CUDAGuard guard(grad.device());
  const at::Tensor dy = loadable(grad.to(at::kBFloat16));
  const std::int64_t gate = x[kGateIn].size(0), width = x[kGateIn].size(1);
  tensor_list d(kMixInputs);
  for (const MixInput i : {kCompressedOut, kSelectedOut, kWindowOut, kGroupMean})
    d[i] = at::empty_like(x[i]);
  at::Tensor partial =
      at::empty({nsa::kMixBlocks, gate * nsa::kGateSums + 3}, x[kGroupMean].options());
  nsa::MixBackward b{};
  b.forward = mix_problem(x, layout), b.dy = bf16_data(dy);
  b.place_token = layout.strided_token.const_data_ptr<std::int64_t>();
  b.d_places = bf16_data(d[kCompressedOut]), b.d_selected = bf16_data(d[kSelectedOut]);
  b.d_window = bf16_data(d[kWindowOut]), b.d_mean = d[kGroupMean].data_ptr<float>();
  b.partial = partial.data_ptr<float>();
  b.places = static_cast<int>(layout.strided_token.size(0));
  nsa::launch_mix_backward(b, c10::cuda::getCurrentCUDAStream());
  check_cuda(cudaGetLastError(), "gates and mix of sparse attention, backward");
  const at::Tensor sum = partial.sum(0);
  d[kGateIn] = sum.narrow(0, 0, gate * width).view({gate, width});
  d[kGateInBias] = sum.narrow(0, gate * width, gate);
  d[kGateOut] = sum.narrow(0, gate * (width + 1), 3 * gate).view({3, gate});
  d[kGateOutBias] = sum.narrow(0, gate * (width + 4), 3);
  return d;
}

// --- the same in tensor operations ---------------------------------------------------------------

struct GateValues {
  at::Tensor sigmoid, hidden; // [T, G, E]
  at::Tensor g;               // [T, G, 3]

  explicit GateValues(const tensor_list& x) {
    const at::ScalarType type = wide_type(x[kGroupMean]);
    const at::Tensor pre =
        at::matmul(x[kGroupMean].to(type), x[kGateIn].to(type).t()) + x[kGateInBias].to(type);
    sigmoid = at::sigmoid(pre), hidden = pre * sigmoid;
    g = (at::matmul(hidden, x[kGateOut].to(type).t()) + x[kGateOutBias].to(type)).softmax(-1);
  }
};

// [T, G, H/G, D] in the gates' type.
at::Tensor by_group(const at::Tensor& o, const at::Tensor& g) {
  return o.to(g.scalar_type()).unflatten(1, {g.size(1), -1});
}

at::Tensor plain_mix(const tensor_list& x, const NsaLayout&) {
  const GateValues gates(x);
  at::Tensor y;
  for (std::int64_t c = 0; c < 3; ++c) {
    const at::Tensor part =
        by_group(x[static_cast<std::size_t>(c)], gates.g) * gates.g.narrow(2, c, 1).unsqueeze(3);
    y = c == 0 ? part : y + part;
  }
  return y.flatten(1, 2).to(x[kSelectedOut].scalar_type());
}

// The formulas of kernels/nsa/mix.cuh.
tensor_list plain_mix_backward(const tensor_list& x, const at::Tensor& grad, const NsaLayout&) {
  const GateValues gates(x);
  const at::Tensor dy = by_group(grad, gates.g);
  tensor_list d(kMixInputs), d_gates;
  for (std::int64_t c = 0; c < 3; ++c) {
    const at::Tensor& o = x[static_cast<std::size_t>(c)];
    d_gates.push_back((dy * by_group(o, gates.g)).sum({2, 3}));
    d[static_cast<std::size_t>(c)] =
        (dy * gates.g.narrow(2, c, 1).unsqueeze(3)).flatten(1, 2).to(o.scalar_type());
  }
  const at::Tensor d_g = at::stack(d_gates, -1);
  const at::Tensor d_logits = gates.g * (d_g - (gates.g * d_g).sum(-1, true));
  const at::Tensor d_pre = at::matmul(d_logits, x[kGateOut].to(d_g.scalar_type())) *
                           (gates.sigmoid + gates.hidden * (1 - gates.sigmoid));
  const auto flat = [](const at::Tensor& a) { return a.flatten(0, 1); };
  d[kGroupMean] =
      at::matmul(d_pre, x[kGateIn].to(d_g.scalar_type())).to(x[kGroupMean].scalar_type());
  d[kGateIn] = at::mm(flat(d_pre).t(), flat(x[kGroupMean]).to(d_g.scalar_type()));
  d[kGateInBias] = flat(d_pre).sum(0);
  d[kGateOut] = at::mm(flat(d_logits).t(), flat(gates.hidden));
  d[kGateOutBias] = flat(d_logits).sum(0);
  return d;
}

struct GatedMix : torch::autograd::Function<GatedMix> {
  static at::Tensor forward(AutogradContext* ctx,
                            const at::Tensor& compressed,
                            const at::Tensor& selected,
                            const at::Tensor& window,
                            const at::Tensor& mean,
                            const at::Tensor& in,
                            const at::Tensor& in_bias,
                            const at::Tensor& out,
                            const at::Tensor& out_bias,
                            const NsaLayoutPtr& layout,
                            bool kernels) {
    const AutocastGuard full_precision(mean.device().type(), at::kFloat);
    tensor_list x{compressed, selected, window, mean, in, in_bias, out, out_bias};
    if (kernels)
      for (at::Tensor& tensor : x) tensor = loadable(tensor);
    ctx->save_for_backward(x);
    ctx->saved_data["layout"] = hold(layout);
    ctx->saved_data["kernels"] = kernels;
    return (kernels ? device_mix : plain_mix)(x, *layout);
  }

  static tensor_list backward(AutogradContext* ctx, const tensor_list& grads) {
    const AutocastGuard full_precision(grads[0].device().type(), at::kFloat);
    const auto& layout = held<NsaLayout>(ctx->saved_data["layout"]);
    const auto run = ctx->saved_data["kernels"].toBool() ? device_mix_backward : plain_mix_backward;
    tensor_list result = run(ctx->get_saved_variables(), grads[0], layout);
    result.resize(kMixInputs + 2); // nothing for layout and form
    return result;
  }
};

} // namespace

at::Tensor nsa_gated_mix(const std::array<at::Tensor, 3>& branches,
                         const at::Tensor& mean,
                         const NsaGateWeights& gate,
                         const NsaLayoutPtr& layout,
                         bool at_places) {
  const Span span("nsa_inputs/fused");
  return GatedMix::apply(branches[0],
                         branches[1],
                         branches[2],
                         mean,
                         gate.in,
                         gate.in_bias,
                         gate.out,
                         gate.out_bias,
                         layout,
                         at_places);
}

} // namespace assay
