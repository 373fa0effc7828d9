// RWKV-6 by the kernels of kernels/scan: r, k, v, w in bf16 [T, H, 64], sums in fp32.
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/autograd/custom_function.h>

#include <memory>
#include <utility>

#include "core/result.h"
#include "core/span.h"
#include "kernels/cuda_check.h"
#include "model/layers/autocast.h"
#include "model/layers/autograd_holder.h"
#include "model/layers/bf16_data.h"
#include "model/layers/scan/input_types.h"
#include "model/layers/scan/rwkv6.h"
#include "model/layers/scan/scan_kernels.h"
#include "model/layout/segments.h"

namespace assay {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;
using LayoutPtr = std::shared_ptr<const ChunkLayout>;

// `decay`: room of the kernels.
scan::Rwkv6 problem_of(const tensor_list& in, at::Tensor& states, const ChunkLayout& layout) {
  scan::Rwkv6 p{};
  p.at = chunk_table(layout, in[0].size(1));
  p.r = bf16_data(in[0]), p.k = bf16_data(in[1]), p.v = bf16_data(in[2]), p.w = bf16_data(in[3]);
  p.u = in[4].const_data_ptr<float>();
  p.states = bf16_data(states);
  return p;
}

at::Tensor rwkv_decay_room(const tensor_list& in, const ChunkLayout& layout) {
  return at::empty({layout.chunks, in[0].size(1), scan::kWidth}, in[4].options());
}

struct FusedRwkv6 : torch::autograd::Function<FusedRwkv6> {
  static at::Tensor forward(AutogradContext* ctx,
                            const at::Tensor& r,
                            const at::Tensor& k,
                            const at::Tensor& v,
                            const at::Tensor& w,
                            const at::Tensor& u,
                            const LayoutPtr& layout) {
    const c10::cuda::CUDAGuard guard(r.device());
    const AutocastGuard full_precision(r.device().type(), at::kFloat);
    tensor_list in;
    for (const at::Tensor* x : {&r, &k, &v, &w}) in.push_back(x->to(at::kBFloat16).contiguous());
    in.push_back(u.to(at::kFloat).contiguous());
    at::Tensor out = at::empty_like(in[2]), decay = rwkv_decay_room(in, *layout);
    at::Tensor states = chunk_states(in[2], *layout, r.size(1), r.size(2));
    scan::Rwkv6 p = problem_of(in, states, *layout);
    p.out = bf16_data(out), p.decay = decay.data_ptr<float>();
    scan::launch_rwkv6(p, c10::cuda::getCurrentCUDAStream());
    check_cuda(cudaGetLastError(), "RWKV-6, forward");
    ctx->saved_data["layout"] = hold(layout);
    ctx->saved_data["types"] = types_of({r, k, v, w, u});
    in.push_back(states);
    ctx->save_for_backward(in);
    return out.to(v.scalar_type());
  }

  static tensor_list backward(AutogradContext* ctx, const tensor_list& grads) {
    const AutocastGuard full_precision(grads[0].device().type(), at::kFloat);
    const c10::cuda::CUDAGuard guard(grads[0].device());
    const ChunkLayout& layout = held<ChunkLayout>(ctx->saved_data["layout"]);
    const tensor_list in = ctx->get_saved_variables();
    const at::Tensor d_out = grads[0].to(at::kBFloat16).contiguous();
    at::Tensor states = in[5], d_states = at::empty_like(states);
    at::Tensor decay = rwkv_decay_room(in, layout), du_parts = at::empty_like(decay);
    tensor_list d;
    for (std::size_t i = 0; i < 5; ++i) d.push_back(at::empty_like(in[i]));
    scan::Rwkv6Gradients back{};
    back.problem = problem_of(in, states, layout);
    back.problem.decay = decay.data_ptr<float>();
    back.d_out = bf16_data(d_out), back.d_states = bf16_data(d_states);
    back.dr = bf16_data(d[0]), back.dk = bf16_data(d[1]), back.dv = bf16_data(d[2]);
    back.dw = bf16_data(d[3]), back.du = d[4].data_ptr<float>();
    back.du_parts = du_parts.data_ptr<float>();
    scan::launch_rwkv6_backward(back, c10::cuda::getCurrentCUDAStream());
    check_cuda(cudaGetLastError(), "RWKV-6, backward");
    return of_types(std::move(d), ctx->saved_data["types"]);
  }
};

} // namespace

at::Tensor rwkv6_fused(const at::Tensor& r,
                       const at::Tensor& k,
                       const at::Tensor& v,
                       const at::Tensor& w,
                       const at::Tensor& u,
                       const Segments& segments) {
  const Span span("scan/fused");
  if (!r.is_cuda()) return rwkv6_in_operators(r, k, v, w, u, segments);
  if (segments.chunks == nullptr) internal_error("the fused scan needs a prepared batch");
  if (segments.chunks->chunk != scan::kChunk || r.size(2) != scan::kWidth ||
      v.size(2) != scan::kWidth)
    internal_error(
        "the kernels of RWKV-6 take chunks of {0} tokens and heads of {1}, not chunks of "
        "{2} and heads of {3}",
        scan::kChunk,
        scan::kWidth,
        segments.chunks->chunk,
        r.size(2));
  return FusedRwkv6::apply(r, k, v, w, u, segments.chunks);
}

} // namespace assay
