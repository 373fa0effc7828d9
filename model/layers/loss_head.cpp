#include "model/layers/loss_head.h"

#include <ATen/cuda/CUDAContextLight.h>
#include <c10/core/DeviceGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include "core/result.h"
#include "core/span.h"
#include "kernels/cuda_check.h"
#include "kernels/products/sum_product.h"
#include "kernels/rowwise/rowwise.h"
#include "model/config/loss_chunk.h"
#include "model/layers/autocast.h"
#include "model/layers/bf16_data.h"
#include "model/layers/linear/kept_weights.h"
#include "model/layers/linear/product.h"

namespace assay {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

const char* level_span(std::int64_t chunk_mib) {
  switch (chunk_mib) {
  case 256:
    return "loss_head/chunked";
  case 64:
    return "loss_head/chunked_64mib";
  default:
    return "loss_head/chunked_other";
  }
}

// Operands in the products' type, and what the chunks fill.
struct Problem {
  at::Tensor x, head;  // [T, D], [V, D]
  at::Tensor targets;  // int64 [T]
  at::Tensor factor;   // of the gradients, 0-dim in the wide type; undefined: losses alone
  at::Tensor losses;   // [T], wide
  at::Tensor d_x;      // [T, D]
  at::Tensor d_head;   // [V, D], wide
  std::int64_t tokens; // of a chunk
  bool timed;          // the products' algorithm

  bool gradients() const { return factor.defined(); }
};

// One chunk's rows.
struct Chunk {
  at::Tensor x, targets, losses, d_x;
  bool first;

  Chunk(const Problem& p, std::int64_t begin)
      : x(rows(p.x, begin, p)), targets(rows(p.targets, begin, p)),
        losses(rows(p.losses, begin, p)), first(begin == 0) {
    if (p.gradients()) d_x = rows(p.d_x, begin, p);
  }

private:
  static at::Tensor rows(const at::Tensor& whole, std::int64_t begin, const Problem& p) {
    return whole.narrow(0, begin, std::min(p.tokens, whole.size(0) - begin));
  }
};

// --- On a GPU in bf16 ----------------------------------------------------------------------------

bool takes_kernels(const at::Tensor& x) {
  return x.is_cuda() && x.scalar_type() == at::kBFloat16 && rowwise::loss_width_fits(x.size(1));
}

// d_head = logits^T x, or added to it: a sum in fp32.
void add_head_gradient(const Problem& p, const Chunk& c, const at::Tensor& logits) {
  const sum_product::Problem product{.left = bf16_data(logits),
                                     .right = bf16_data(c.x),
                                     .out = p.d_head.data_ptr<float>(),
                                     .rows = logits.size(1),
                                     .columns = c.x.size(1),
                                     .inner = logits.size(0),
                                     .left_stride = logits.stride(0),
                                     .add = !c.first};
  const cudaDeviceProp& device = *at::cuda::getCurrentDeviceProperties();
  if (!sum_product::takes(product, 10 * device.major + device.minor))
    return product_out(p.d_head, logits.t(), c.x, !c.first, p.timed);
  sum_product::launch(product, device.multiProcessorCount, c10::cuda::getCurrentCUDAStream());
  count("loss_head/sum_product");
}

void device_chunk(const Problem& p, const Chunk& c, at::Tensor& padded) {
  const std::int64_t rows = c.x.size(0), vocab = p.head.size(0);
  const at::Tensor logits = padded.narrow(0, 0, rows).narrow(1, 0, vocab);
  product_out(logits, c.x, p.head.t(), false, p.timed);
  rowwise::Loss loss{};
  loss.logits = bf16_data(padded), loss.x = bf16_data(c.x), loss.weight = bf16_data(p.head);
  loss.targets = c.targets.const_data_ptr<std::int64_t>();
  loss.factor = p.gradients() ? p.factor.const_data_ptr<float>() : nullptr;
  loss.losses = c.losses.data_ptr<float>();
  loss.rows = static_cast<int>(rows), loss.columns = static_cast<int>(vocab);
  loss.stride = static_cast<int>(padded.size(1)), loss.width = static_cast<int>(c.x.size(1));
  rowwise::launch_loss(loss, c10::cuda::getCurrentCUDAStream());
  check_cuda(cudaGetLastError(), "cross entropy of a chunk");
  if (!p.gradients()) return;
  product_out(c.d_x, logits, p.head, false, p.timed);
  add_head_gradient(p, c, logits);
}

// --- Anywhere ------------------------------------------------------------------------------------

void plain_chunk(const Problem& p, Chunk& c) {
  const at::ScalarType wide = p.losses.scalar_type();
  const at::Tensor kept = c.targets.ge(0), column = c.targets.clamp_min(0).unsqueeze(1);
  at::Tensor y = at::mm(c.x, p.head.t()).to(wide); // becomes e^y, softmax, gradient
  const at::Tensor target = y.gather(1, column).squeeze(1), most = y.amax(1, true);
  y.sub_(most).exp_();
  const at::Tensor sum = y.sum(1, true);
  c.losses.copy_((sum.log() + most).squeeze(1).sub_(target).masked_fill_(~kept, 0));
  if (!p.gradients()) return;
  y.div_(sum).scatter_add_(1, column, at::full({1, 1}, -1, y.options()).expand_as(column));
  y.mul_(p.factor).masked_fill_(~kept.unsqueeze(1), 0);
  const at::Tensor d_logits = y.to(c.x.scalar_type());
  c.d_x.copy_(at::mm(d_logits, p.head));
  at::Tensor d_head = p.d_head;
  if (c.first)
    d_head.copy_(at::mm(d_logits.t(), c.x));
  else
    d_head.add_(at::mm(d_logits.t(), c.x));
}

// Bytes of all that a plain chunk keeps of one logit: in the products' type the product and then
// the gradient, unless that is the wide type itself.
std::int64_t plain_bytes(const at::Tensor& x) {
  const auto wide = static_cast<std::int64_t>(c10::elementSize(wide_type(x)));
  return x.element_size() == wide ? wide : wide + x.element_size();
}

void run_chunks(Problem& p, std::int64_t chunk_mib) {
  const std::int64_t tokens = p.x.size(0), vocab = p.head.size(0);
  const bool device = takes_kernels(p.x);
  p.tokens =
      loss_chunk_tokens(tokens, vocab, chunk_mib, device ? p.x.element_size() : plain_bytes(p.x));
  at::Tensor padded;
  if (device) padded = at::empty({p.tokens, rowwise::loss_stride(vocab)}, p.x.options());
  for (std::int64_t begin = 0; begin < tokens; begin += p.tokens) {
    Chunk chunk(p, begin);
    device ? device_chunk(p, chunk, padded) : plain_chunk(p, chunk);
  }
}

struct ChunkedLoss : torch::autograd::Function<ChunkedLoss> {
  // `product`: type of the products; `gradients`: whether a backward pass follows.
  static at::Tensor forward(AutogradContext* ctx,
                            const at::Tensor& x,
                            const at::Tensor& head,
                            const at::Tensor& targets,
                            const std::optional<at::Tensor>& gradient,
                            std::int64_t chunk_mib,
                            std::int64_t product,
                            bool gradients) {
    const Span span(level_span(chunk_mib));
    const AutocastGuard full_precision(x.device().type(), at::kFloat);
    const c10::OptionalDeviceGuard guard(x.device());
    const auto type = static_cast<at::ScalarType>(product);
    const at::TensorOptions wide = x.options().dtype(wide_type(x));
    Problem p{};
    p.x = x.to(type).contiguous(), p.head = product_weight(head, type).contiguous();
    p.targets = targets.contiguous(), p.timed = products_timed();
    p.losses = at::empty({x.size(0)}, wide);
    const at::Tensor count = p.targets.ge(0).sum(); // on the device
    if (gradients) {
      p.factor =
          gradient ? gradient->to(wide.dtype()) / count : count.to(wide.dtype()).reciprocal();
      p.d_x = at::empty_like(p.x);
      p.d_head = at::empty(head.sizes(), wide);
    }
    run_chunks(p, chunk_mib);
    if (gradients) {
      ctx->saved_data["x"] = p.d_x.to(x.scalar_type());
      ctx->saved_data["head"] = p.d_head.to(head.scalar_type());
      ctx->saved_data["gradient"] = gradient;
    }
    return p.losses.sum() / count;
  }

  // Hands the gradients out and keeps nothing, so that the parameter takes its own without a copy.
  static tensor_list backward(AutogradContext* ctx, const tensor_list& grads) {
    if (ctx->saved_data.empty())
      internal_error("the loss head's gradients were handed out by an earlier backward pass; "
                     "compute the loss again");
    const std::optional<at::Tensor> expected = ctx->saved_data["gradient"].toOptional<at::Tensor>();
    at::_assert_async(expected ? grads[0].eq(*expected) : grads[0].eq(1),
                      "chunked_loss() was told of another gradient than its backward pass got");
    at::Tensor d_x = ctx->saved_data["x"].toTensor(), d_head = ctx->saved_data["head"].toTensor();
    ctx->saved_data.clear();
    const at::Tensor none;
    return {std::move(d_x), std::move(d_head), none, none, none, none, none};
  }
};

// The gradient as autograd will multiply it, to the bit; none: 1.
std::optional<at::Tensor> tensor_of(const LossGradient& gradient, const at::Tensor& x) {
  if (gradient.weight == 1)
    return gradient.scale.defined() ? std::optional(gradient.scale) : std::nullopt;
  if (gradient.scale.defined()) return gradient.scale * gradient.weight;
  return at::full({}, gradient.weight, x.options().dtype(wide_type(x)));
}

} // namespace

at::Tensor logits_loss(const at::Tensor& logits, const at::Tensor& targets) {
  return at::cross_entropy_loss(logits.to(wide_type(logits)), targets);
}

at::Tensor chunked_loss(const at::Tensor& x,
                        const at::Tensor& head,
                        const at::Tensor& targets,
                        std::int64_t chunk_mib,
                        const LossGradient& gradient) {
  const bool gradients = at::GradMode::is_enabled() && (x.requires_grad() || head.requires_grad());
  return ChunkedLoss::apply(x,
                            head,
                            targets,
                            tensor_of(gradient, x),
                            chunk_mib,
                            static_cast<std::int64_t>(product_type(x)),
                            gradients);
}

} // namespace assay
