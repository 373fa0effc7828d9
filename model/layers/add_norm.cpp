#include "model/layers/add_norm.h"

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include "core/span.h"
#include "kernels/cuda_check.h"
#include "kernels/fp8/cast.h"
#include "kernels/rowwise/rowwise.h"
#include "model/layers/autocast.h"
#include "model/layers/bf16_data.h"
#include "model/layers/fp8/fp8_largest.h"
#include "model/layers/fp8/fp8_written.h"
#include "model/layers/layer_norm.h"
#include "model/layers/rms_norm.h"

namespace assay {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

template <class Element> const Element* elements(const at::Tensor& x) {
  return x.defined() ? static_cast<const Element*>(x.const_data_ptr()) : nullptr;
}
const float* floats(const at::Tensor& x) {
  return x.defined() ? x.const_data_ptr<float>() : nullptr;
}

at::Tensor sum_of(const at::Tensor& partial) {
  return partial.sum(0);
}

// --- add_norm
// -------------------------------------------------------------------------------------

// What is added and normed. A defined bias makes it a layer norm.
struct NormInputs {
  at::Tensor x, branch, weight, bias;
  at::Tensor fp8; // slot of a result in FP8 alone; undefined: 16 bits
};

// What is normed, 1 / rms of its rows (of a layer norm behind their mean), and the result.
struct Normed {
  at::Tensor sum, mean, rstd, y;
};

bool norm_takes_kernels(const at::Tensor& x, at::ScalarType result) {
  const at::ScalarType stream = x.scalar_type();
  return x.is_cuda() && (stream == at::kFloat || stream == at::kBFloat16) &&
         result == at::kBFloat16 && rowwise::norm_width_fits(x.size(1));
}

// `Stream`: float or bf16, the type of x.
template <class Stream> Normed device_norm(const NormInputs& in) {
  const at::Tensor& x = in.x;
  const c10::cuda::CUDAGuard guard(x.device());
  const at::TensorOptions wide = x.options().dtype(at::kFloat);
  Normed n{in.branch.defined() ? at::empty_like(x) : x,
           in.bias.defined() ? at::empty({x.size(0)}, wide) : at::Tensor(),
           at::empty({x.size(0)}, wide),
           {}};
  const at::Tensor added =
      in.branch.defined() ? in.branch.to(at::kBFloat16).contiguous() : in.branch;
  rowwise::AddNorm<Stream> p{};
  p.x = elements<Stream>(x), p.branch = added.defined() ? bf16_data(added) : nullptr;
  p.weight = floats(in.weight), p.sum = static_cast<Stream*>(n.sum.data_ptr());
  p.rstd = n.rstd.data_ptr<float>();
  p.bias = floats(in.bias), p.mean = n.mean.defined() ? n.mean.data_ptr<float>() : nullptr;
  p.rows = static_cast<int>(x.size(0)), p.width = static_cast<int>(x.size(1));
  if (in.fp8.defined()) {
    Fp8Result y = fp8_result(x.size(0), x.size(1), at::kFloat8_e4m3fn, in.fp8);
    launch_fp8_add_norm(p, y.to, c10::cuda::getCurrentCUDAStream());
    check_cuda(cudaGetLastError(), "add_norm in FP8");
    n.y = fp8_only(x.sizes(), std::move(y.matrix));
    return n;
  }
  n.y = at::empty(x.sizes(), x.options().dtype(at::kBFloat16));
  p.y = bf16_data(n.y);
  const at::Tensor slot = fp8_slot(x.device());
  p.amax = largest_of(slot);
  rowwise::launch_add_norm(p, c10::cuda::getCurrentCUDAStream());
  check_cuda(cudaGetLastError(), "add_norm, forward");
  note_largest(n.y, slot);
  return n;
}

Normed plain_norm(const NormInputs& in, at::ScalarType result) {
  const at::ScalarType type = wide_type(in.x);
  const bool layer = in.bias.defined();
  Normed n;
  n.sum = in.branch.defined() ? (in.x.to(type) + in.branch).to(in.x.scalar_type()) : in.x;
  at::Tensor row = n.sum.to(type); // as it is stored
  if (layer) {
    n.mean = row.mean(-1);
    row = row - n.mean.unsqueeze(1);
  }
  n.rstd = (row * row).mean(-1).add_(layer ? kLayerNormEps : kNormEps).rsqrt_();
  n.y = row * n.rstd.unsqueeze(1) * in.weight;
  n.y = (layer ? n.y + in.bias : n.y).to(result);
  return n;
}

Normed norm_of(const NormInputs& in, at::ScalarType result) {
  if (!norm_takes_kernels(in.x, result)) return plain_norm(in, result);
  return in.x.scalar_type() == at::kFloat ? device_norm<float>(in) : device_norm<bf16>(in);
}

struct NormGradients {
  at::Tensor dx, d_branch, d_weight, d_bias;
};

template <class Stream>
NormGradients device_norm_backward(const Normed& n,
                                   const at::Tensor& weight,
                                   const at::Tensor& next,
                                   const at::Tensor& dy,
                                   bool branch,
                                   const at::Tensor& slot) {
  const c10::cuda::CUDAGuard guard(n.sum.device());
  const at::Tensor behind = next.defined() ? next.contiguous() : next;
  const at::Tensor grad = dy.to(at::kBFloat16).contiguous();
  const bool both = branch && sizeof(Stream) == 4; // a 16-bit stream's gradient is the branch's
  at::Tensor dx = at::empty_like(n.sum), dx16 = both ? at::empty_like(grad) : dx;
  const std::int64_t sums = n.mean.defined() ? 2 : 1, width = n.sum.size(1);
  at::Tensor partial = at::empty({sums, rowwise::kPartialRows, width}, n.rstd.options());
  rowwise::AddNormBackward<Stream> p{};
  p.x = elements<Stream>(n.sum), p.rstd = floats(n.rstd), p.weight = floats(weight);
  p.dy = bf16_data(std::as_const(grad)), p.next = elements<Stream>(behind);
  p.dx = static_cast<Stream*>(dx.data_ptr()), p.dx16 = both ? bf16_data(dx16) : nullptr;
  p.partial = partial.data_ptr<float>();
  p.rows = static_cast<int>(n.sum.size(0)), p.width = static_cast<int>(width);
  p.mean = floats(n.mean);
  p.amax = branch ? largest_of(slot) : nullptr;
  rowwise::launch_add_norm_backward(p, c10::cuda::getCurrentCUDAStream());
  check_cuda(cudaGetLastError(), "add_norm, backward");
  if (branch) note_largest(dx16, slot);
  if (sums == 1) return {dx, dx16, sum_of(partial[0]), {}};
  const at::Tensor both_sums = partial.sum(1);
  return {dx, dx16, both_sums[0], both_sums[1]};
}

// dx = next + r (w dy - u mean(u w dy)) with u = x r;   dw = sum of u dy over the rows. A layer
// norm: u = (x - mean) r, w dy without its mean, and db = sum of dy.
NormGradients plain_norm_backward(const Normed& n,
                                  const at::Tensor& weight,
                                  const at::Tensor& next,
                                  const at::Tensor& dy) {
  const at::ScalarType type = wide_type(n.sum);
  const bool layer = n.mean.defined();
  const at::Tensor r = n.rstd.unsqueeze(1), row = n.sum.to(type);
  const at::Tensor unit = (layer ? row - n.mean.unsqueeze(1) : row) * r;
  const at::Tensor grad = dy.to(type);
  at::Tensor weighted = grad * weight;
  if (layer) weighted = weighted - weighted.mean(-1, true);
  const at::Tensor along = (unit * weighted).mean(-1, true);
  at::Tensor dx = (weighted - unit * along).mul_(r);
  if (next.defined()) dx = dx + next;
  dx = dx.to(n.sum.scalar_type());
  return {dx, dx, (unit * grad).sum(0), layer ? grad.sum(0) : at::Tensor()};
}

NormGradients norm_backward(const Normed& n,
                            const at::Tensor& weight,
                            const tensor_list& grads,
                            at::ScalarType result,
                            bool branch,
                            const at::Tensor& slot) {
  if (!norm_takes_kernels(n.sum, result)) return plain_norm_backward(n, weight, grads[0], grads[1]);
  return n.sum.scalar_type() == at::kFloat
             ? device_norm_backward<float>(n, weight, grads[0], grads[1], branch, slot)
             : device_norm_backward<bf16>(n, weight, grads[0], grads[1], branch, slot);
}

struct AddNorm : torch::autograd::Function<AddNorm> {
  // `result`: dtype of the normed rows.
  static tensor_list forward(AutogradContext* ctx,
                             const at::Tensor& given,
                             const std::optional<at::Tensor>& added,
                             const at::Tensor& weight,
                             const std::optional<at::Tensor>& bias,
                             const std::optional<at::Tensor>& fp8,
                             std::int64_t result) {
    const at::Tensor branch = added.value_or(at::Tensor());
    const Span span("norms/fused");
    const AutocastGuard full_precision(given.device().type(), at::kFloat);
    const auto type = static_cast<at::ScalarType>(result);
    const at::Tensor x = given.contiguous();
    const at::Tensor none;
    const Normed n = norm_of({x, branch, weight, bias.value_or(none), fp8.value_or(none)}, type);
    ctx->save_for_backward({n.sum, n.mean, n.rstd, weight});
    ctx->set_materialize_grads(false);
    ctx->saved_data["result"] = result;
    ctx->saved_data["slot"] = fp8_slot(x.device()); // of the gradient
    ctx->saved_data["branch"] = static_cast<std::int64_t>(
        branch.defined() ? branch.scalar_type() : at::ScalarType::Undefined);
    // An input returned as it came would lose its place in the graph.
    return {branch.defined() ? n.sum : n.sum.view_as(n.sum), n.y};
  }

  static tensor_list backward(AutogradContext* ctx, const tensor_list& grads) {
    const AutocastGuard full_precision(ctx->get_saved_variables()[0].device().type(), at::kFloat);
    const tensor_list saved = ctx->get_saved_variables();
    const Normed n{saved[0], saved[1], saved[2], {}};
    const auto branch = static_cast<at::ScalarType>(ctx->saved_data["branch"].toInt());
    const bool has_branch = branch != at::ScalarType::Undefined;
    const auto result = static_cast<at::ScalarType>(ctx->saved_data["result"].toInt());
    const auto typed = [&](const at::Tensor& x) {
      return has_branch && x.defined() ? x.to(branch) : at::Tensor();
    };
    const at::Tensor none;
    if (!grads[1].defined()) return {grads[0], typed(grads[0]), none, none, none, none};
    const NormGradients d =
        norm_backward(n, saved[3], grads, result, has_branch, ctx->saved_data["slot"].toTensor());
    return {d.dx, typed(d.d_branch), d.d_weight, d.d_bias, none, none};
  }
};

// --- gated_norm
// -----------------------------------------------------------------------------------

bool gate_takes_kernels(const at::Tensor& o, at::ScalarType result) {
  return o.is_cuda() && o.scalar_type() == at::kBFloat16 && result == at::kBFloat16 &&
         rowwise::gated_head_fits(o.size(2));
}

// The gate as the kernel reads it: heads side by side, rows and first element at 16 bytes.
at::Tensor readable_gate(const at::Tensor& gate) {
  const bool fits = gate.scalar_type() == at::kBFloat16 && gate.stride(2) == 1 &&
                    gate.stride(1) == gate.size(2) && gate.stride(0) % 8 == 0 &&
                    reinterpret_cast<std::uintptr_t>(gate.const_data_ptr()) % 16 == 0;
  return fits ? gate : gate.to(at::kBFloat16).contiguous();
}

rowwise::GatedNorm
gate_problem(const at::Tensor& o, const at::Tensor& gate, const at::Tensor& weight) {
  rowwise::GatedNorm p{};
  p.o = bf16_data(o), p.gate = bf16_data(gate), p.weight = floats(weight);
  p.tokens = static_cast<int>(o.size(0)), p.heads = static_cast<int>(o.size(1));
  p.head = static_cast<int>(o.size(2)), p.gate_stride = static_cast<int>(gate.stride(0));
  return p;
}

at::Tensor gated_norm_fp8(const rowwise::GatedNorm& p, const at::Tensor& slot) {
  Fp8Result y = fp8_result(p.tokens, std::int64_t{p.heads} * p.head, at::kFloat8_e4m3fn, slot);
  launch_fp8_gated_norm(p, y.to, c10::cuda::getCurrentCUDAStream());
  check_cuda(cudaGetLastError(), "gated norm in FP8");
  return fp8_only({p.tokens, p.heads, p.head}, std::move(y.matrix));
}

struct GatedNorm : torch::autograd::Function<GatedNorm> {
  static at::Tensor forward(AutogradContext* ctx,
                            const at::Tensor& given,
                            const at::Tensor& given_gate,
                            const at::Tensor& weight,
                            const std::optional<at::Tensor>& fp8,
                            std::int64_t result) {
    const Span span("norms/fused");
    const AutocastGuard full_precision(given.device().type(), at::kFloat);
    const at::Tensor o = given.contiguous();
    const auto type = static_cast<at::ScalarType>(result);
    const bool device = gate_takes_kernels(o, type);
    const at::Tensor gate = device ? readable_gate(given_gate) : given_gate;
    ctx->save_for_backward({o, gate, weight});
    ctx->saved_data["result"] = result;
    ctx->saved_data["gate"] = static_cast<std::int64_t>(given_gate.scalar_type());
    if (device) {
      const c10::cuda::CUDAGuard guard(o.device());
      rowwise::GatedNorm p = gate_problem(o, gate, weight);
      if (fp8) return gated_norm_fp8(p, *fp8);
      at::Tensor y = at::empty_like(o);
      p.y = bf16_data(y);
      const at::Tensor slot = fp8_slot(o.device());
      p.amax = largest_of(slot);
      rowwise::launch_gated_norm(p, c10::cuda::getCurrentCUDAStream());
      check_cuda(cudaGetLastError(), "gated norm, forward");
      note_largest(y, slot);
      return y;
    }
    const at::Tensor wide = o.to(wide_type(o)), r = inverse_rms(wide);
    return (wide * r * weight * at::silu(gate.to(wide.scalar_type()))).to(type);
  }

  static tensor_list backward(AutogradContext* ctx, const tensor_list& grads) {
    const AutocastGuard full_precision(grads[0].device().type(), at::kFloat);
    const tensor_list saved = ctx->get_saved_variables();
    const at::Tensor &o = saved[0], &gate = saved[1], &weight = saved[2];
    const auto gate_type = static_cast<at::ScalarType>(ctx->saved_data["gate"].toInt());
    const auto result = static_cast<at::ScalarType>(ctx->saved_data["result"].toInt());
    if (gate_takes_kernels(o, result)) {
      const c10::cuda::CUDAGuard guard(o.device());
      const at::Tensor dy = grads[0].to(at::kBFloat16).contiguous();
      at::Tensor d_o = at::empty_like(o), d_gate = at::empty_like(o);
      at::Tensor partial = at::empty({rowwise::kPartialRows, o.size(2)}, weight.options());
      rowwise::GatedNormBackward b{};
      b.forward = gate_problem(o, gate, weight);
      b.dy = bf16_data(dy), b.d_o = bf16_data(d_o), b.d_gate = bf16_data(d_gate);
      b.partial = partial.data_ptr<float>();
      b.d_gate_stride = static_cast<int>(o.size(1) * o.size(2));
      rowwise::launch_gated_norm_backward(b, c10::cuda::getCurrentCUDAStream());
      check_cuda(cudaGetLastError(), "gated norm, backward");
      return {d_o, d_gate.to(gate_type), sum_of(partial), at::Tensor(), at::Tensor()};
    }
    // y = u w a s, u = o r, s = sigmoid(a): with d = dy a s, do = r (w d - u mean(u w d))
    const at::ScalarType type = wide_type(o);
    const at::Tensor wide = o.to(type), r = inverse_rms(wide), unit = wide * r;
    const at::Tensor a = gate.to(type), s = at::sigmoid(a), dy = grads[0].to(type);
    const at::Tensor d = dy * a * s, weighted = d * weight;
    const at::Tensor along = (unit * weighted).mean(-1, true);
    return {(weighted - unit * along).mul_(r).to(o.scalar_type()),
            (dy * unit * weight * s * (1 + a * (1 - s))).to(gate_type),
            (unit * d).sum(at::IntArrayRef({0, 1})),
            at::Tensor(),
            at::Tensor()};
  }

  static at::Tensor inverse_rms(const at::Tensor& x) {
    return (x * x).mean(-1, true).add_(kNormEps).rsqrt_();
  }
};

} // namespace

std::pair<at::Tensor, at::Tensor> add_norm(const at::Tensor& x,
                                           const at::Tensor& branch,
                                           const at::Tensor& weight,
                                           const at::Tensor& bias,
                                           const at::Tensor& to) {
  const at::ScalarType result = product_type(x); // what follows is one
  const auto given = [](const at::Tensor& tensor) {
    return tensor.defined() ? std::optional<at::Tensor>(tensor) : std::nullopt;
  };
  const bool fits = norm_takes_kernels(x, result) && !bias.defined();
  const tensor_list both = AddNorm::apply(x,
                                          given(branch),
                                          weight,
                                          given(bias),
                                          delayed_slot(fits, to, Fp8Of::Input),
                                          static_cast<std::int64_t>(result));
  return {both[0], both[1]};
}

at::Tensor gated_norm(const at::Tensor& o,
                      const at::Tensor& gate,
                      const at::Tensor& weight,
                      const at::Tensor& to) {
  const at::ScalarType result = product_type(gate);
  const bool fits = gate_takes_kernels(o, result);
  return GatedNorm::apply(
      o, gate, weight, delayed_slot(fits, to, Fp8Of::Input), static_cast<std::int64_t>(result));
}

} // namespace assay
