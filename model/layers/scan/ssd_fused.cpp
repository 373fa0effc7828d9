// SSD by the kernels of kernels/scan: x, b, c in bf16, a and sums in fp32. The kernels' heads have
// 64 values: a wider head is several of them, which share a, b and c.
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
#include "model/layers/scan/scan_kernels.h"
#include "model/layers/scan/ssd.h"
#include "model/layout/segments.h"

namespace assay {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;
using LayoutPtr = std::shared_ptr<const ChunkLayout>;

// in: x [T, H', 64], a [T, H'], b and c [T, G, N], with H' heads of 64 values.
scan::Ssd problem_of(const tensor_list& in,
                     at::Tensor& states,
                     at::Tensor& decay,
                     const ChunkLayout& layout) {
  scan::Ssd p{};
  p.at = chunk_table(layout, in[0].size(1));
  p.x = bf16_data(in[0]), p.a = in[1].const_data_ptr<float>();
  p.b = bf16_data(in[2]), p.c = bf16_data(in[3]);
  p.states = bf16_data(states), p.decay = decay.data_ptr<float>();
  p.groups = static_cast<int>(in[2].size(1));
  return p;
}

at::Tensor ssd_decay_room(const tensor_list& in, const ChunkLayout& layout) {
  return at::empty({layout.chunks, in[0].size(1)}, in[1].options());
}

struct FusedSsd : torch::autograd::Function<FusedSsd> {
  static at::Tensor forward(AutogradContext* ctx,
                            const at::Tensor& x,
                            const at::Tensor& a,
                            const at::Tensor& b,
                            const at::Tensor& c,
                            const LayoutPtr& layout) {
    const AutocastGuard full_precision(x.device().type(), at::kFloat);
    const c10::cuda::CUDAGuard guard(x.device());
    const std::int64_t parts = x.size(2) / scan::kWidth;
    const auto narrow = [](const at::Tensor& y) { return y.to(at::kBFloat16).contiguous(); };
    tensor_list in{narrow(x).view({x.size(0), -1, scan::kWidth}),
                   (parts == 1 ? a : a.repeat_interleave(parts, 1)).to(at::kFloat).contiguous(),
                   narrow(b),
                   narrow(c)};
    at::Tensor out = at::empty_like(in[0]), decay = ssd_decay_room(in, *layout);
    at::Tensor states = chunk_states(in[0], *layout, in[0].size(1), b.size(2));
    scan::Ssd p = problem_of(in, states, decay, *layout);
    p.out = bf16_data(out);
    scan::launch_ssd(p, static_cast<int>(b.size(2)), c10::cuda::getCurrentCUDAStream());
    check_cuda(cudaGetLastError(), "SSD, forward");
    ctx->saved_data["layout"] = hold(layout);
    ctx->saved_data["types"] = types_of({x, a, b, c});
    ctx->saved_data["parts"] = parts;
    in.push_back(states);
    ctx->save_for_backward(in);
    return out.view_as(x).to(x.scalar_type());
  }

  static tensor_list backward(AutogradContext* ctx, const tensor_list& grads) {
    const AutocastGuard full_precision(grads[0].device().type(), at::kFloat);
    const c10::cuda::CUDAGuard guard(grads[0].device());
    const ChunkLayout& layout = held<ChunkLayout>(ctx->saved_data["layout"]);
    const std::int64_t parts = ctx->saved_data["parts"].toInt();
    const tensor_list in = ctx->get_saved_variables();
    const at::Tensor d_out = grads[0].to(at::kBFloat16).contiguous();
    at::Tensor states = in[4], d_states = at::empty_like(states),
               decay = ssd_decay_room(in, layout);
    tensor_list d;
    for (std::size_t i = 0; i < 4; ++i) d.push_back(at::empty_like(in[i]));
    scan::SsdGradients back{};
    back.problem = problem_of(in, states, decay, layout);
    back.d_out = bf16_data(d_out), back.d_states = bf16_data(d_states);
    back.dx = bf16_data(d[0]), back.da = d[1].data_ptr<float>();
    back.db = bf16_data(d[2]), back.dc = bf16_data(d[3]);
    scan::launch_ssd_backward(
        back, static_cast<int>(in[2].size(2)), c10::cuda::getCurrentCUDAStream());
    check_cuda(cudaGetLastError(), "SSD, backward");
    d[0] = d[0].view_as(grads[0]);
    if (parts > 1) d[1] = d[1].view({d[1].size(0), -1, parts}).sum(2);
    return of_types(std::move(d), ctx->saved_data["types"]);
  }
};

} // namespace

at::Tensor ssd_fused(const at::Tensor& x,
                     const at::Tensor& a,
                     const at::Tensor& b,
                     const at::Tensor& c,
                     const Segments& segments) {
  const Span span("scan/fused");
  if (!x.is_cuda()) return ssd_in_operators(x, a, b, c, segments);
  if (segments.chunks == nullptr) internal_error("the fused scan needs a prepared batch");
  if (segments.chunks->chunk != scan::kChunk || x.size(2) % scan::kWidth != 0 ||
      !scan::state_fits(b.size(2)))
    internal_error("the kernels of SSD take chunks of {0} tokens, values in multiples of {1} and "
                   "states of 64 or 128, not chunks of {2}, {3} values and states of {4}",
                   scan::kChunk,
                   scan::kWidth,
                   segments.chunks->chunk,
                   x.size(2),
                   b.size(2));
  return FusedSsd::apply(x, a, b, c, segments.chunks);
}

} // namespace assay
