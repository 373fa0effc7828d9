#include "model/nsa/selected_attention.h"

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/autograd/custom_function.h>

#include <memory>
#include <vector>

#include "core/result.h"
#include "core/span.h"
#include "kernels/cuda_check.h"
#include "kernels/nsa/ranges.h"
#include "kernels/nsa/selected_attention/selected_attention.h"
#include "model/layers/autograd_holder.h"
#include "model/nsa/selected_attention_reference.h"

namespace assay {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

struct Call {
  Selection selection;
  double scale = 0;
  bool kernels = false;

  bool ranges() const { return selection.chosen.dim() == 4; }
};

void check_inputs(const at::Tensor& q,
                  const at::Tensor& k,
                  const at::Tensor& v,
                  const Selection& selection) {
  const at::Tensor& chosen = selection.chosen;
  const bool blocks = chosen.dim() == 3 && chosen.scalar_type() == at::kLong;
  const bool ranges = chosen.dim() == 4 && chosen.size(3) == 2 && chosen.scalar_type() == at::kInt;
  if (!blocks && !ranges)
    internal_error("a selection must be int64 [T, G, n] (blocks) or int32 [T, G, n, 2] (ranges)");
  if (q.dim() != 3 || k.dim() != 3 || k.sizes() != v.sizes() || q.size(0) != k.size(0) ||
      q.size(2) != k.size(2) || k.size(1) < 1 || q.size(1) % k.size(1) != 0)
    internal_error("selected attention needs q [T, H, d] and k, v [T, G, d], H a multiple of G");
  if (q.scalar_type() != k.scalar_type() || q.scalar_type() != v.scalar_type())
    internal_error("selected attention needs q, k and v of one dtype, not {}, {} and {}",
                   c10::toString(q.scalar_type()),
                   c10::toString(k.scalar_type()),
                   c10::toString(v.scalar_type()));
  if (chosen.size(0) != q.size(0) || chosen.size(1) != k.size(1) ||
      selection.document_start.scalar_type() != at::kInt ||
      selection.document_start.numel() != q.size(0) || selection.block_size < 1)
    internal_error("a selection must have the T and G of q and k, int32 document starts [T] and "
                   "blocks of at least one token");
}

// What the kernels cannot do is refused before anything runs.
void check_kernel_limits(const at::Tensor& q, const at::Tensor& k, const Selection& selection) {
  const std::int64_t width = q.size(2), heads = q.size(1) / k.size(1), block = selection.block_size;
  if (width != 64 && width != 128)
    bad_input("selected attention on a GPU needs a head width of 64 or 128, not {}", width);
  if (heads > kMaxGroupHeads)
    bad_input("selected attention on a GPU takes at most {} query heads a key-value group, not {}: "
              "use more groups",
              kMaxGroupHeads,
              heads);
  if (selection.chosen.size(2) > kMaxSelectedBlocks)
    bad_input("selected attention on a GPU takes at most {} blocks a query, not {}",
              kMaxSelectedBlocks,
              selection.chosen.size(2));
  if (block != 16 && block != 32 && block != 64 && block != 128)
    bad_input("selected attention on a GPU needs blocks of 16, 32, 64 or 128 tokens, not {}",
              block);
}

SelectedProblem
problem_of(const Call& call, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const Selection& selection = call.selection;
  SelectedProblem problem{};
  problem.q = q.const_data_ptr();
  problem.k = k.const_data_ptr();
  problem.v = v.const_data_ptr();
  if (call.ranges())
    problem.ranges = selection.chosen.const_data_ptr<std::int32_t>();
  else
    problem.blocks = selection.chosen.const_data_ptr<std::int64_t>();
  problem.document_start = selection.document_start.const_data_ptr<std::int32_t>();
  problem.type = element_type(q.scalar_type());
  problem.tokens = static_cast<int>(q.size(0));
  problem.heads = static_cast<int>(q.size(1));
  problem.groups = static_cast<int>(k.size(1));
  problem.width = static_cast<int>(q.size(2));
  problem.selected = static_cast<int>(selection.chosen.size(2));
  problem.block_size = static_cast<int>(selection.block_size);
  problem.scale = static_cast<float>(call.scale);
  return problem;
}

SelectedForward
kernel_forward(const Call& call, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const c10::cuda::CUDAGuard guard(q.device());
  SelectedForward result{at::empty_like(q),
                         at::empty({q.size(0), q.size(1)}, q.options().dtype(at::kFloat))};
  launch_selected_forward(problem_of(call, q, k, v),
                          {result.out.mutable_data_ptr(), result.lse.mutable_data_ptr<float>()},
                          c10::cuda::getCurrentCUDAStream().stream());
  ASSAY_CUDA(cudaGetLastError());
  count(call.ranges() ? "kernel/selected_attention_ranges" : "kernel/selected_attention_blocks");
  return result;
}

// dK and dV of the half-precision kernels: inverse index first, all of it on the device.
void launch_key_gradient(const SelectedProblem& problem,
                         const SelectedGradients& gradients,
                         const at::TensorOptions& options,
                         cudaStream_t stream) {
  const std::int64_t places = std::int64_t{problem.groups} * problem.tokens;
  const at::TensorOptions ints = options.dtype(at::kInt);
  const at::Tensor counts = at::zeros({places}, ints);
  launch_selected_count(problem, counts.mutable_data_ptr<std::int32_t>(), stream);
  ASSAY_CUDA(cudaGetLastError());
  const at::Tensor query_end = counts.cumsum(0, at::kInt), cursor = query_end - counts;
  const at::Tensor item_end =
      (counts + (kQueriesPerItem - 1)).div_(kQueriesPerItem, "floor").cumsum(0, at::kInt);
  const at::Tensor queries = at::empty({places * problem.selected}, ints);
  launch_selected_fill(problem,
                       cursor.mutable_data_ptr<std::int32_t>(),
                       queries.mutable_data_ptr<std::int32_t>(),
                       stream);
  ASSAY_CUDA(cudaGetLastError());
  launch_selected_key_gradient(problem,
                               gradients,
                               {query_end.const_data_ptr<std::int32_t>(),
                                item_end.const_data_ptr<std::int32_t>(),
                                queries.const_data_ptr<std::int32_t>()},
                               stream);
  ASSAY_CUDA(cudaGetLastError());
}

SelectedBackward kernel_backward(const Call& call,
                                 const at::Tensor& grad,
                                 const at::Tensor& q,
                                 const at::Tensor& k,
                                 const at::Tensor& v,
                                 const SelectedForward& forward) {
  const c10::cuda::CUDAGuard guard(q.device());
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream().stream();
  const at::Tensor grad_out = loadable(grad), grad_q = at::empty_like(q);
  const at::Tensor delta = at::empty_like(forward.lse);
  const at::Tensor grad_kv = // both in one, for one fill and one cast
      at::zeros({2, k.size(0), k.size(1), k.size(2)}, k.options().dtype(at::kFloat));
  const SelectedProblem problem = problem_of(call, q, k, v);
  const SelectedGradients gradients{forward.out.const_data_ptr(),
                                    grad_out.const_data_ptr(),
                                    forward.lse.const_data_ptr<float>(),
                                    delta.mutable_data_ptr<float>(),
                                    grad_q.mutable_data_ptr(),
                                    grad_kv.mutable_data_ptr<float>(),
                                    grad_kv.mutable_data_ptr<float>() + k.numel()};
  if (problem.type == ElementType::Fp32) {
    launch_selected_backward_fp32(problem, gradients, stream);
    ASSAY_CUDA(cudaGetLastError());
  } else {
    launch_selected_query_gradient(problem, gradients, stream);
    ASSAY_CUDA(cudaGetLastError());
    launch_key_gradient(problem, gradients, q.options(), stream);
  }
  const at::Tensor rounded = grad_kv.to(k.scalar_type());
  return {grad_q, rounded[0], rounded[1]};
}

struct SelectedAttention : torch::autograd::Function<SelectedAttention> {
  static at::Tensor forward(AutogradContext* ctx,
                            const at::Tensor& q,
                            const at::Tensor& k,
                            const at::Tensor& v,
                            const std::shared_ptr<const Call>& call) {
    const SelectedForward result =
        call->kernels ? kernel_forward(*call, q, k, v)
                      : selected_tensor_forward(q, k, v, call->selection, call->scale);
    ctx->save_for_backward({q, k, v, result.out, result.lse});
    ctx->saved_data["call"] = hold(call);
    return result.out;
  }

  static tensor_list backward(AutogradContext* ctx, const tensor_list& grads) {
    const Call& call = held<Call>(ctx->saved_data["call"]);
    const tensor_list kept = ctx->get_saved_variables();
    const SelectedForward forward{kept[3], kept[4]};
    const SelectedBackward result =
        call.kernels
            ? kernel_backward(call, grads[0], kept[0], kept[1], kept[2], forward)
            : selected_tensor_backward(
                  grads[0], kept[0], kept[1], kept[2], forward, call.selection, call.scale);
    return {result.grad_q, result.grad_k, result.grad_v, at::Tensor()};
  }
};

at::Tensor apply(const at::Tensor& q,
                 const at::Tensor& k,
                 const at::Tensor& v,
                 const Selection& selection,
                 double scale,
                 bool kernels) {
  Selection packed{
      selection.chosen.contiguous(), selection.document_start.contiguous(), selection.block_size};
  const std::shared_ptr<const Call> call =
      std::make_shared<const Call>(Call{std::move(packed), scale, kernels});
  if (kernels) return SelectedAttention::apply(loadable(q), loadable(k), loadable(v), call);
  count("kernel/selected_tensor_form");
  return SelectedAttention::apply(q, k, v, call);
}

} // namespace

at::Tensor loadable(const at::Tensor& x) {
  const at::Tensor packed = x.contiguous();
  return reinterpret_cast<std::uintptr_t>(packed.const_data_ptr()) % 16 == 0 ? packed
                                                                             : packed.clone();
}

ElementType element_type(at::ScalarType type) {
  return type == at::kBFloat16 ? ElementType::Bf16
         : type == at::kHalf   ? ElementType::Fp16
                               : ElementType::Fp32;
}

at::Tensor selected_attention(const at::Tensor& q,
                              const at::Tensor& k,
                              const at::Tensor& v,
                              const Selection& selection,
                              double scale) {
  check_inputs(q, k, v, selection);
  const bool kernels = q.is_cuda() && q.scalar_type() != at::kDouble;
  if (kernels) check_kernel_limits(q, k, selection);
  return apply(q, k, v, selection, scale, kernels);
}

at::Tensor selected_attention_tensor_form(const at::Tensor& q,
                                          const at::Tensor& k,
                                          const at::Tensor& v,
                                          const Selection& selection,
                                          double scale) {
  check_inputs(q, k, v, selection);
  return apply(q, k, v, selection, scale, false);
}

} // namespace assay
