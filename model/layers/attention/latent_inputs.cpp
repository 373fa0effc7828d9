#include "model/layers/attention/latent_inputs.h"

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "core/span.h"
#include "kernels/attention/attention.h"
#include "kernels/cuda_check.h"
#include "model/layers/attention/attention.h"
#include "model/layers/autocast.h"
#include "model/layers/bf16_data.h"
#include "model/layers/rms_norm.h"

namespace assay {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

bool is_device_half(const at::Tensor& x) {
  return x.is_cuda() && x.scalar_type() == at::kBFloat16;
}

// Last dimension side by side, everything else at 16 bytes: what kernels read without a copy.
at::Tensor readable(const at::Tensor& given) {
  const at::Tensor x = given.to(at::kBFloat16);
  bool fits = x.stride(-1) == 1 && reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % 16 == 0;
  for (std::int64_t i = 0; i + 1 < x.dim(); ++i) fits = fits && x.stride(i) % 8 == 0;
  return fits ? x : x.clone(at::MemoryFormat::Contiguous);
}

// --- norm_latent ---------------------------------------------------------------------------------

bool norm_takes_kernel(const at::Tensor& down, std::int64_t rank, at::ScalarType result) {
  return is_device_half(down) && result == at::kBFloat16 && latent::rank_fits(rank) &&
         (down.size(1) - rank) % 8 == 0 && down.size(1) - rank <= 256;
}

latent::Norm norm_problem(const at::Tensor& down, const at::Tensor& weight) {
  latent::Norm p{};
  p.down = bf16_data(down), p.weight = weight.const_data_ptr<float>();
  p.tokens = static_cast<int>(down.size(0)), p.rank = static_cast<int>(weight.size(0));
  p.stride = static_cast<int>(down.stride(0));
  return p;
}

at::Tensor device_latent(const at::Tensor& down, const at::Tensor& weight) {
  const c10::cuda::CUDAGuard guard(down.device());
  at::Tensor y = at::empty({down.size(0), weight.size(0)}, down.options());
  latent::Norm p = norm_problem(down, weight);
  p.latent = bf16_data(y);
  latent::launch_norm(p, c10::cuda::getCurrentCUDAStream());
  check_cuda(cudaGetLastError(), "norm of the latent, forward");
  return y;
}

std::pair<at::Tensor, at::Tensor>
device_latent_backward(const at::Tensor& down, const at::Tensor& weight, const tensor_list& grads) {
  const c10::cuda::CUDAGuard guard(down.device());
  const at::Tensor d_latent = grads[0].to(at::kBFloat16).contiguous(),
                   d_key = grads[1].to(at::kBFloat16).contiguous();
  at::Tensor d_down = at::empty({down.size(0), down.size(1)}, down.options());
  at::Tensor partial = at::empty({latent::kPartialRows, weight.size(0)}, weight.options());
  latent::NormBackward b{};
  b.forward = norm_problem(down, weight);
  b.d_latent = bf16_data(d_latent), b.d_key = bf16_data(d_key);
  b.d_down = bf16_data(d_down), b.partial = partial.data_ptr<float>();
  b.rope = static_cast<int>(d_key.size(1));
  latent::launch_norm_backward(b, c10::cuda::getCurrentCUDAStream());
  check_cuda(cudaGetLastError(), "norm of the latent, backward");
  return {d_down, partial.sum(0)};
}

at::Tensor inverse_rms(const at::Tensor& x) {
  return (x * x).mean(-1, true).add_(kNormEps).rsqrt_();
}

// The formulas of kernels/attention/norm.cuh.
std::pair<at::Tensor, at::Tensor>
plain_latent_backward(const at::Tensor& down, const at::Tensor& weight, const tensor_list& grads) {
  const at::Tensor x = down.narrow(1, 0, weight.size(0)).to(wide_type(down));
  const at::Tensor dy = grads[0].to(x.scalar_type());
  const at::Tensor r = inverse_rms(x), unit = x * r, weighted = dy * weight;
  const at::Tensor along = (unit * weighted).mean(-1, true);
  const at::Tensor dx = (weighted - unit * along).mul_(r).to(down.scalar_type());
  return {at::cat({dx, grads[1].to(down.scalar_type())}, 1), (unit * dy).sum(0)};
}

struct NormLatent : torch::autograd::Function<NormLatent> {
  // `result`: type of the normed rows.
  static tensor_list forward(AutogradContext* ctx,
                             const at::Tensor& given,
                             const at::Tensor& weight,
                             std::int64_t result) {
    const Span span("mla_inputs/fused");
    const AutocastGuard full_precision(given.device().type(), at::kFloat);
    const std::int64_t rank = weight.size(0), rope = given.size(1) - rank;
    const auto type = static_cast<at::ScalarType>(result);
    const bool device = norm_takes_kernel(given, rank, type);
    const at::Tensor down = device ? readable(given) : given;
    ctx->save_for_backward({down, weight});
    ctx->saved_data["device"] = device;
    if (device) return {device_latent(down, weight), given.narrow(1, rank, rope)};
    const at::Tensor x = given.narrow(1, 0, rank).to(wide_type(given));
    return {(x * inverse_rms(x) * weight).to(type), given.narrow(1, rank, rope)};
  }

  static tensor_list backward(AutogradContext* ctx, const tensor_list& grads) {
    const AutocastGuard full_precision(grads[0].device().type(), at::kFloat);
    const tensor_list saved = ctx->get_saved_variables();
    const auto run =
        ctx->saved_data["device"].toBool() ? device_latent_backward : plain_latent_backward;
    const auto [d_down, d_weight] = run(saved[0], saved[1], grads);
    return {d_down, d_weight, at::Tensor()};
  }
};

// --- latent_heads --------------------------------------------------------------------------------

struct HeadSizes {
  std::int64_t tokens, heads, plain, rope;

  std::int64_t width() const { return plain + rope; }
};

bool heads_take_kernel(const HeadSizes& size,
                       const at::Tensor& q,
                       const at::Tensor& up,
                       const at::Tensor& key) {
  return is_device_half(q) && is_device_half(up) && is_device_half(key) &&
         latent::heads_fit(size.plain, size.rope);
}

at::Tensor rotated(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  return apply_rope(x.to(wide_type(x)), cos, sin);
}

struct HeadGradients {
  at::Tensor q, up, key;
};

LatentHeads device_heads(const HeadSizes& size,
                         const at::Tensor& given_q,
                         const at::Tensor& given_up,
                         const at::Tensor& given_key,
                         const at::Tensor& cos,
                         const at::Tensor& sin) {
  const c10::cuda::CUDAGuard guard(given_q.device());
  at::Tensor q = given_q.contiguous();
  const at::Tensor up = given_up.contiguous(), key = readable(given_key);
  at::Tensor k = at::empty({size.tokens, size.heads, size.width()}, q.options());
  latent::Heads p{};
  p.q = bf16_data(q), p.k = bf16_data(k);
  p.up = bf16_data(up), p.key = bf16_data(key);
  p.cos = cos.const_data_ptr<float>(), p.sin = sin.const_data_ptr<float>();
  p.tokens = static_cast<int>(size.tokens), p.heads = static_cast<int>(size.heads);
  p.plain = static_cast<int>(size.plain), p.rope = static_cast<int>(size.rope);
  p.key_stride = static_cast<int>(key.stride(0));
  latent::launch_heads(p, c10::cuda::getCurrentCUDAStream());
  check_cuda(cudaGetLastError(), "heads of latent attention, forward");
  q.unsafeGetTensorImpl()->bump_version(); // whoever saved the old value gets an error
  return {q.view({size.tokens, size.heads, size.width()}),
          k,
          up.view({size.tokens, size.heads, 2 * size.plain}).narrow(2, size.plain, size.plain)};
}

// A gradient that may be overwritten: the one given where this call alone owns it.
at::Tensor writable(const at::Tensor& grad) {
  const bool own = grad.scalar_type() == at::kBFloat16 && grad.is_contiguous() &&
                   grad.use_count() == 1 && grad.storage().use_count() == 1;
  count("mla_inputs/gradient_copies", own ? 0 : 1);
  return own ? grad : grad.to(at::kBFloat16).clone(at::MemoryFormat::Contiguous);
}

HeadGradients device_heads_backward(const HeadSizes& size,
                                    const tensor_list& grads,
                                    const at::Tensor& cos,
                                    const at::Tensor& sin) {
  const c10::cuda::CUDAGuard guard(grads[0].device());
  at::Tensor dq = writable(grads[0]);
  const at::Tensor dk = grads[1].to(at::kBFloat16).contiguous(), dv = readable(grads[2]);
  at::Tensor d_up = at::empty({size.tokens, size.heads * 2 * size.plain}, dk.options());
  at::Tensor d_key = at::empty({size.tokens, size.rope}, dk.options());
  latent::HeadsBackward b{};
  b.dq = bf16_data(dq), b.d_up = bf16_data(d_up), b.d_key = bf16_data(d_key);
  b.dk = bf16_data(dk), b.dv = bf16_data(dv);
  b.cos = cos.const_data_ptr<float>(), b.sin = sin.const_data_ptr<float>();
  b.tokens = static_cast<int>(size.tokens), b.heads = static_cast<int>(size.heads);
  b.plain = static_cast<int>(size.plain), b.rope = static_cast<int>(size.rope);
  b.dv_head = dv.stride(1), b.dv_token = dv.stride(0);
  latent::launch_heads_backward(b, c10::cuda::getCurrentCUDAStream());
  check_cuda(cudaGetLastError(), "heads of latent attention, backward");
  return {dq.view({size.tokens, size.heads * size.width()}), d_up, d_key};
}

LatentHeads plain_heads(const HeadSizes& size,
                        const at::Tensor& q,
                        const at::Tensor& up,
                        const at::Tensor& key,
                        const at::Tensor& cos,
                        const at::Tensor& sin) {
  const std::vector<at::Tensor> parts =
      q.view({size.tokens, size.heads, size.width()}).split_with_sizes({size.plain, size.rope}, 2);
  const std::vector<at::Tensor> kv = up.view({size.tokens, size.heads, 2 * size.plain}).chunk(2, 2);
  const at::Tensor rotary_key =
      rotated(key.unsqueeze(1), cos, sin).to(kv[0].scalar_type()).expand({-1, size.heads, -1});
  return {at::cat({parts[0], rotated(parts[1], cos, sin).to(q.scalar_type())}, 2),
          at::cat({kv[0], rotary_key}, 2),
          kv[1]};
}

// Rotations turn back by the negative angle.
HeadGradients plain_heads_backward(const HeadSizes& size,
                                   const tensor_list& grads,
                                   const at::Tensor& cos,
                                   const at::Tensor& sin) {
  const at::Tensor back = sin.neg();
  const auto halves = [&](const at::Tensor& x) {
    return x.split_with_sizes({size.plain, size.rope}, 2);
  };
  const std::vector<at::Tensor> dq = halves(grads[0]), dk = halves(grads[1]);
  const at::Tensor d_key = dk[1].to(wide_type(dk[1])).sum(1, true);
  return {at::cat({dq[0], rotated(dq[1], cos, back).to(dq[0].scalar_type())}, 2).flatten(1),
          at::cat({dk[0], grads[2]}, 2).flatten(1),
          rotated(d_key, cos, back).squeeze(1).to(dk[1].scalar_type())};
}

struct MakeHeads : torch::autograd::Function<MakeHeads> {
  static tensor_list forward(AutogradContext* ctx,
                             const at::Tensor& q,
                             const at::Tensor& up,
                             const at::Tensor& key,
                             const at::Tensor& cos,
                             const at::Tensor& sin,
                             std::int64_t heads) {
    const Span span("mla_inputs/fused");
    const AutocastGuard full_precision(q.device().type(), at::kFloat);
    const HeadSizes size{q.size(0), heads, up.size(1) / (2 * heads), key.size(1)};
    const bool device = heads_take_kernel(size, q, up, key);
    ctx->save_for_backward({cos, sin});
    ctx->saved_data["device"] = device;
    const LatentHeads out = (device ? device_heads : plain_heads)(size, q, up, key, cos, sin);
    return {out.q, out.k, out.v};
  }

  static tensor_list backward(AutogradContext* ctx, const tensor_list& grads) {
    const AutocastGuard full_precision(grads[0].device().type(), at::kFloat);
    const tensor_list saved = ctx->get_saved_variables();
    const at::Tensor& dv = grads[2];
    const HeadSizes size{dv.size(0), dv.size(1), dv.size(2), grads[0].size(2) - dv.size(2)};
    const auto run =
        ctx->saved_data["device"].toBool() ? device_heads_backward : plain_heads_backward;
    const HeadGradients d = run(size, grads, saved[0], saved[1]);
    return {d.q, d.up, d.key, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

} // namespace

NormedLatent norm_latent(const at::Tensor& down, const at::Tensor& weight) {
  const tensor_list out =
      NormLatent::apply(down, weight, static_cast<std::int64_t>(product_type(down)));
  return {out[0], out[1]};
}

LatentHeads latent_heads(const at::Tensor& q,
                         const at::Tensor& up,
                         const at::Tensor& key,
                         const Rotary& rotary,
                         std::int64_t heads) {
  const tensor_list out = MakeHeads::apply(q, up, key, rotary.cos, rotary.sin, heads);
  return {out[0], out[1], out[2]};
}

} // namespace assay
