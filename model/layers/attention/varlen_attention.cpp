#include "model/layers/attention/varlen_attention.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "core/result.h"
#include "core/span.h"
#include "model/layers/autograd_holder.h"

namespace assay {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

// CustomMaskType::CausalFromTopLeft of LibTorch's memory-efficient kernel.
constexpr std::int64_t kCausalFromTopLeft = 1;

struct VarlenCall {
  std::vector<std::int32_t> cu_host;
  at::Tensor cu;
  std::int64_t max_len = 0;
  double scale = 0;
  std::optional<std::int64_t> left; // keys before the query's own; none: all
  bool efficient = false;           // on CUDA, whatever the dtype
};

// Heads of q and of k as the CPU kernel takes them: groups that share keys, and heads of one.
struct HeadGroups {
  std::int64_t groups, heads;
};

HeadGroups head_groups(const at::Tensor& q, const at::Tensor& k) {
  const std::int64_t groups = k.size(1) == q.size(1) ? 1 : k.size(1);
  return {groups, q.size(1) / groups};
}

// One segment of [T, heads, D] as a view [groups, heads of a group, L, D]. A key that a group
// shares is there for each of its heads, without a copy.
at::Tensor
segment(const at::Tensor& x, const HeadGroups& by, const VarlenCall& call, std::size_t i) {
  const at::Tensor tokens = x.narrow(0, call.cu_host[i], call.cu_host[i + 1] - call.cu_host[i]);
  return tokens.unflatten(1, {by.groups, -1})
      .permute({1, 2, 0, 3})
      .expand({by.groups, by.heads, -1, -1});
}

// [groups, heads of a group, L, D] -> [L, heads, D]
at::Tensor tokens_first(const at::Tensor& x) {
  return x.permute({2, 0, 1, 3}).flatten(1, 2);
}

// A gradient in the heads of `of` [T, heads, D]: where heads shared one, their sum.
at::Tensor summed(const at::Tensor& grad, const HeadGroups& by, const at::Tensor& of) {
  return of.size(1) == by.groups * by.heads ? grad : grad.sum(1, true);
}

tensor_list
cpu_forward(const VarlenCall& call, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const std::size_t segments = call.cu_host.size() - 1;
  const HeadGroups by = head_groups(q, k);
  tensor_list outputs, kept(1);
  for (std::size_t i = 0; i < segments; ++i) {
    auto [out, lse] = at::_scaled_dot_product_flash_attention_for_cpu(segment(q, by, call, i),
                                                                      segment(k, by, call, i),
                                                                      segment(v, by, call, i),
                                                                      0.0,
                                                                      true,
                                                                      {},
                                                                      call.scale);
    outputs.push_back(tokens_first(out));
    kept.push_back(lse);
  }
  kept[0] = at::cat(outputs);
  count("kernel/flash_cpu", static_cast<std::int64_t>(segments));
  return kept;
}

tensor_list cpu_backward(const VarlenCall& call,
                         const at::Tensor& grad,
                         const at::Tensor& q,
                         const at::Tensor& k,
                         const at::Tensor& v,
                         const tensor_list& kept) {
  const HeadGroups by = head_groups(q, k);
  tensor_list dq, dk, dv;
  for (std::size_t i = 0; i + 1 < call.cu_host.size(); ++i) {
    auto [gq, gk, gv] =
        at::_scaled_dot_product_flash_attention_for_cpu_backward(segment(grad, by, call, i),
                                                                 segment(q, by, call, i),
                                                                 segment(k, by, call, i),
                                                                 segment(v, by, call, i),
                                                                 segment(kept[0], by, call, i),
                                                                 kept[i + 1],
                                                                 0.0,
                                                                 true,
                                                                 {},
                                                                 call.scale);
    dq.push_back(tokens_first(gq));
    dk.push_back(tokens_first(summed(gk, by, k)));
    dv.push_back(tokens_first(summed(gv, by, v)));
  }
  return {at::cat(dq), at::cat(dk), at::cat(dv)};
}

tensor_list flash_forward(const VarlenCall& call,
                          const at::Tensor& q,
                          const at::Tensor& k,
                          const at::Tensor& v) {
  auto [out, lse, rng, unused, debug] = at::_flash_attention_forward(q,
                                                                     k,
                                                                     v,
                                                                     call.cu,
                                                                     call.cu,
                                                                     call.max_len,
                                                                     call.max_len,
                                                                     0.0,
                                                                     true,
                                                                     false,
                                                                     call.scale,
                                                                     call.left,
                                                                     0);
  count("kernel/flash_varlen");
  return {out, lse, rng, unused};
}

tensor_list flash_backward(const VarlenCall& call,
                           const at::Tensor& grad,
                           const at::Tensor& q,
                           const at::Tensor& k,
                           const at::Tensor& v,
                           const tensor_list& kept) {
  auto [dq, dk, dv] = at::_flash_attention_backward(grad.contiguous(),
                                                    q,
                                                    k,
                                                    v,
                                                    kept[0],
                                                    kept[1],
                                                    call.cu,
                                                    call.cu,
                                                    call.max_len,
                                                    call.max_len,
                                                    0.0,
                                                    true,
                                                    kept[2],
                                                    kept[3],
                                                    call.scale,
                                                    call.left,
                                                    0);
  return {dq, dk, dv};
}

tensor_list efficient_forward(const VarlenCall& call,
                              const at::Tensor& q,
                              const at::Tensor& k,
                              const at::Tensor& v) {
  const auto result = at::_efficient_attention_forward(q.unsqueeze(0),
                                                       k.unsqueeze(0),
                                                       v.unsqueeze(0),
                                                       {},
                                                       call.cu,
                                                       call.cu,
                                                       call.max_len,
                                                       call.max_len,
                                                       0.0,
                                                       kCausalFromTopLeft,
                                                       true,
                                                       call.scale);
  count("kernel/efficient_varlen");
  return {std::get<0>(result).squeeze(0),
          std::get<1>(result),
          std::get<2>(result),
          std::get<3>(result)};
}

tensor_list efficient_backward(const VarlenCall& call,
                               const at::Tensor& grad,
                               const at::Tensor& q,
                               const at::Tensor& k,
                               const at::Tensor& v,
                               const tensor_list& kept) {
  auto [dq, dk, dv, d_bias] = at::_efficient_attention_backward(grad.contiguous().unsqueeze(0),
                                                                q.unsqueeze(0),
                                                                k.unsqueeze(0),
                                                                v.unsqueeze(0),
                                                                {},
                                                                kept[0].unsqueeze(0),
                                                                call.cu,
                                                                call.cu,
                                                                call.max_len,
                                                                call.max_len,
                                                                kept[1],
                                                                0.0,
                                                                kept[2],
                                                                kept[3],
                                                                kCausalFromTopLeft,
                                                                false,
                                                                call.scale);
  return {dq.squeeze(0), dk.squeeze(0), dv.squeeze(0)};
}

bool is_half(const at::Tensor& x) {
  return x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16;
}

bool takes_flash(const VarlenCall& call, const at::Tensor& q) {
  return is_half(q) && !call.efficient;
}

// Keeps for the backward pass what the kernel returned; its result comes first.
tensor_list run_forward(AutogradContext* ctx,
                        const at::Tensor& q,
                        const at::Tensor& k,
                        const at::Tensor& v,
                        const std::shared_ptr<const VarlenCall>& call) {
  const tensor_list results = !q.is_cuda()            ? cpu_forward(*call, q, k, v)
                              : takes_flash(*call, q) ? flash_forward(*call, q, k, v)
                                                      : efficient_forward(*call, q, k, v);
  tensor_list kept = results;
  kept.insert(kept.end(), {q, k, v});
  ctx->save_for_backward(kept);
  ctx->saved_data["call"] = hold(call);
  return results;
}

// Gradients of q, k, v and nothing for the call.
tensor_list run_backward(AutogradContext* ctx, const at::Tensor& grad) {
  const VarlenCall& call = held<VarlenCall>(ctx->saved_data["call"]);
  tensor_list kept = ctx->get_saved_variables();
  const at::Tensor v = kept.back(), k = kept[kept.size() - 2], q = kept[kept.size() - 3];
  kept.resize(kept.size() - 3);
  const auto run = !q.is_cuda()           ? cpu_backward
                   : takes_flash(call, q) ? flash_backward
                                          : efficient_backward;
  tensor_list result = run(call, grad, q, k, v, kept);
  result.emplace_back();
  return result;
}

struct VarlenAttention : torch::autograd::Function<VarlenAttention> {
  static at::Tensor forward(AutogradContext* ctx,
                            const at::Tensor& q,
                            const at::Tensor& k,
                            const at::Tensor& v,
                            const std::shared_ptr<const VarlenCall>& call) {
    return run_forward(ctx, q, k, v, call)[0];
  }
  static tensor_list backward(AutogradContext* ctx, const tensor_list& grads) {
    return run_backward(ctx, grads[0]);
  }
};

struct VarlenWithLse : torch::autograd::Function<VarlenWithLse> {
  static tensor_list forward(AutogradContext* ctx,
                             const at::Tensor& q,
                             const at::Tensor& k,
                             const at::Tensor& v,
                             const std::shared_ptr<const VarlenCall>& call) {
    const tensor_list results = run_forward(ctx, q, k, v, call);
    ctx->mark_non_differentiable({results[1]});
    return {results[0], results[1]};
  }
  static tensor_list backward(AutogradContext* ctx, const tensor_list& grads) {
    return run_backward(ctx, grads[0]);
  }
};

void require_flash(const at::Tensor& q) {
  if (!q.is_cuda() || !is_half(q)) internal_error("this attention needs bf16 or fp16 on CUDA");
}

std::shared_ptr<VarlenCall>
make_call(const Segments& segments, double scale, std::optional<std::int64_t> left) {
  // A longest segment of one query makes flash attention swap queries and groups of heads.
  const std::int64_t longest = std::max<std::int64_t>(2, segments.max_len);
  return std::make_shared<VarlenCall>(
      VarlenCall{segments.cu_host, segments.cu, longest, scale, left});
}

} // namespace

at::Tensor varlen_attention(const at::Tensor& q,
                            const at::Tensor& k,
                            const at::Tensor& v,
                            const Segments& segments,
                            double scale) {
  return VarlenAttention::apply(
      q, k, v, std::shared_ptr<const VarlenCall>(make_call(segments, scale, std::nullopt)));
}

at::Tensor efficient_attention(const at::Tensor& q,
                               const at::Tensor& k,
                               const at::Tensor& v,
                               const Segments& segments,
                               double scale) {
  if (!q.is_cuda()) internal_error("memory-efficient attention needs CUDA");
  std::shared_ptr<VarlenCall> call = make_call(segments, scale, std::nullopt);
  call->efficient = true;
  return VarlenAttention::apply(q, k, v, std::shared_ptr<const VarlenCall>(std::move(call)));
}

at::Tensor window_attention(const at::Tensor& q,
                            const at::Tensor& k,
                            const at::Tensor& v,
                            const Segments& segments,
                            double scale,
                            std::int64_t window) {
  require_flash(q);
  return VarlenAttention::apply(
      q, k, v, std::shared_ptr<const VarlenCall>(make_call(segments, scale, window - 1)));
}

VarlenResult varlen_attention_with_lse(const at::Tensor& q,
                                       const at::Tensor& k,
                                       const at::Tensor& v,
                                       const Segments& segments,
                                       double scale) {
  require_flash(q);
  const tensor_list results = VarlenWithLse::apply(
      q, k, v, std::shared_ptr<const VarlenCall>(make_call(segments, scale, std::nullopt)));
  return {results[0], results[1]};
}

} // namespace assay
