// Notation of docs/rwmba.md: gamma is the running sum of a inside a chunk, L_ij = e^{gamma_i -
// gamma_j} for i >= j, S the state that enters a chunk, D the gradient of the one that leaves it.
#include <torch/csrc/autograd/custom_function.h>

#include <limits>
#include <memory>

#include "core/result.h"
#include "core/span.h"
#include "model/layers/autocast.h"
#include "model/layers/autograd_holder.h"
#include "model/layers/scan/chunk_scan.h"
#include "model/layers/scan/input_types.h"
#include "model/layers/scan/ssd.h"
#include "model/layout/chunk_rows.h"

namespace assay {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;
using LayoutPtr = std::shared_ptr<const ChunkLayout>;

struct HeadDecays {
  at::Tensor from_start; // e^{gamma_i} [R, C, 1]
  at::Tensor to_end;     // e^{gamma_C - gamma_i} [R, C, 1]
  at::Tensor whole;      // e^{gamma_C} [R, 1, 1]
  at::Tensor pairs;      // L [R, C, C]
};

HeadDecays head_decays(const at::Tensor& a, const at::Tensor& above) {
  const at::Tensor gamma = a.cumsum(1), last = gamma.narrow(1, gamma.size(1) - 1, 1);
  return {gamma.exp(),
          (last - gamma).exp_(),
          last.exp(),
          (gamma - gamma.transpose(1, 2))
              .masked_fill_(above, -std::numeric_limits<double>::infinity())
              .exp_()};
}

// The sum over the heads of each group.
at::Tensor of_groups(const at::Tensor& x, std::int64_t groups) {
  return x.size(1) == groups ? x : x.view({x.size(0), groups, -1, x.size(2)}).sum(2);
}

struct ChunkedSsd : torch::autograd::Function<ChunkedSsd> {
  static at::Tensor forward(AutogradContext* ctx,
                            const at::Tensor& x,
                            const at::Tensor& a,
                            const at::Tensor& b,
                            const at::Tensor& c,
                            const LayoutPtr& layout) {
    const AutocastGuard full_precision(x.device().type(), at::kFloat);
    const at::ScalarType type = wide_type(x);
    const std::int64_t shared = x.size(1) / b.size(1); // heads of a group
    const at::Tensor input = to_chunks(x, *layout, type);
    const at::Tensor write = to_masked_chunks(b.repeat_interleave(shared, 1), *layout, type);
    const at::Tensor read = to_chunks(c.repeat_interleave(shared, 1), *layout, type);
    const at::Tensor decay = to_masked_chunks(a.unsqueeze(2), *layout, type);
    const HeadDecays d = head_decays(decay, layout->above);
    const at::Tensor scores = at::bmm(read, write.transpose(1, 2)).mul_(d.pairs);
    const at::Tensor states =
        entering_states(*layout, d.whole, at::bmm((write * d.to_end).transpose(1, 2), input));
    at::Tensor out = at::bmm(scores, input);
    if (layout->step_chunks.size() > 1) out.baddbmm_(read * d.from_start, states);
    ctx->save_for_backward({input, write, read, decay, scores, states});
    ctx->saved_data["layout"] = hold(layout);
    ctx->saved_data["groups"] = b.size(1);
    ctx->saved_data["types"] = types_of({x, a, b, c});
    return to_tokens(out, *layout, x.scalar_type());
  }

  static tensor_list backward(AutogradContext* ctx, const tensor_list& grads) {
    const AutocastGuard full_precision(grads[0].device().type(), at::kFloat);
    const ChunkLayout& layout = held<ChunkLayout>(ctx->saved_data["layout"]);
    const tensor_list saved = ctx->get_saved_variables();
    const at::Tensor &input = saved[0], &write = saved[1], &read = saved[2], &scores = saved[4],
                     &states = saved[5];
    const HeadDecays d = head_decays(saved[3], layout.above);
    const std::int64_t last = layout.chunk - 1, groups = ctx->saved_data["groups"].toInt();
    const at::Tensor d_out = to_masked_chunks(grads[0], layout, input.scalar_type());
    const at::Tensor leaving = leaving_gradients(
        layout, d.whole, at::bmm((read * d.from_start).transpose(1, 2), d_out)); // D

    const at::Tensor d_input =
        at::bmm(scores.transpose(1, 2), d_out).baddbmm_(write * d.to_end, leaving);
    const at::Tensor d_scores = at::bmm(d_out, input.transpose(1, 2)).mul_(d.pairs); // W
    const at::Tensor from_state = at::bmm(d_out, states.transpose(1, 2)).mul_(d.from_start);
    const at::Tensor to_state = at::bmm(input, leaving.transpose(1, 2)).mul_(d.to_end);
    const at::Tensor d_read = at::baddbmm(from_state, d_scores, write);
    const at::Tensor d_write = at::baddbmm(to_state, d_scores.transpose(1, 2), read);

    // A pair on the diagonal has no decay.
    const at::Tensor pairs = at::bmm(read, write.transpose(1, 2)).mul_(d_scores).tril_(-1); // E
    const at::Tensor written = (write * to_state).sum(2, true);
    at::Tensor d_gamma = pairs.sum(2, true)
                             .sub_(pairs.sum(1).unsqueeze(2))
                             .add_((read * from_state).sum(2, true))
                             .sub_(written);
    d_gamma.narrow(1, last, 1)
        .add_(written.sum(1, true))
        .addcmul_(d.whole, (states * leaving).sum({1, 2}).view({-1, 1, 1}));
    const at::Tensor d_decay = d_gamma.flip(1).cumsum(1).flip(1);
    const at::ScalarType type = input.scalar_type();
    return of_types({to_tokens(d_input, layout, type),
                     to_tokens(d_decay, layout, type).squeeze(2),
                     of_groups(to_tokens(d_write, layout, type), groups),
                     of_groups(to_tokens(d_read, layout, type), groups)},
                    ctx->saved_data["types"]);
  }
};

} // namespace

at::Tensor ssd_chunked(const at::Tensor& x,
                       const at::Tensor& a,
                       const at::Tensor& b,
                       const at::Tensor& c,
                       const Segments& segments) {
  const Span span("scan/chunked");
  return ssd_in_operators(x, a, b, c, segments);
}

at::Tensor ssd_in_operators(const at::Tensor& x,
                            const at::Tensor& a,
                            const at::Tensor& b,
                            const at::Tensor& c,
                            const Segments& segments) {
  if (segments.chunks == nullptr) internal_error("the chunked scan needs a prepared batch");
  return ChunkedSsd::apply(x, a, b, c, segments.chunks);
}

} // namespace assay
