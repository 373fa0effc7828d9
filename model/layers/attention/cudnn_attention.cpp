#include "model/layers/attention/cudnn_attention.h"

#include <c10/core/DeviceGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <array>
#include <memory>

#include "core/result.h"
#include "core/span.h"
#include "kernels/attention/cudnn_plans.h"
#include "kernels/cuda_check.h"
#include "model/layers/autograd_holder.h"

namespace assay {

namespace {

using cudnn_plans::Plan, cudnn_plans::Pointers, cudnn_plans::Shape;
using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

constexpr std::array<std::int64_t, 5> kRooms{64, 96, 128, 192, 256};
constexpr std::int64_t kTokens = 1024; // batches of nearly as many tokens share plans

struct CudnnCall {
  Shape shape;
  const Plan* plan = nullptr; // lives as long as the process
};

// Of a forward pass.
struct Results {
  at::Tensor out, stats, table; // table: of packed documents, else undefined
};

// As a plan takes it. Parts of wider rows are copied: with those of latent attention cuDNN 9.19
// ended in an illegal instruction on compute capability 9.0.
at::Tensor aligned(const at::Tensor& x) {
  const at::Tensor whole = x.contiguous();
  const bool fits = reinterpret_cast<std::uintptr_t>(whole.const_data_ptr()) % 16 == 0;
  return fits ? whole : whole.clone();
}

// How a call takes its segments, and the width of its rows.
struct Request {
  const Segments& segments;
  double scale;
  bool rows;
  std::int64_t row_length;
};

Shape shape_of(const tensor_list& qkv, const Request& request, bool joined) {
  const auto& [segments, scale, rows, row_length] = request;
  const at::Tensor &q = qkv[0], &v = qkv[2];
  Shape s;
  s.joined = joined;
  s.heads = q.size(1), s.width_qk = q.size(2), s.width_v = v.size(2);
  s.fp16 = q.scalar_type() == at::kHalf;
  s.scale = scale;
  s.packed = !rows;
  const std::int64_t count = segments.cu.size(0) - 1;
  if (rows) {
    s.documents = count, s.longest = segments.max_len, s.tokens = q.size(0);
    if (count * segments.max_len != q.size(0)) internal_error("rows of attention differ in length");
    return s;
  }
  const std::optional<std::int64_t> room = cudnn_room(count);
  if (!room) internal_error("attention by cuDNN of {} documents; {} at most", count, kRooms.back());
  s.documents = *room;
  s.longest = std::max(row_length, segments.max_len);
  s.tokens = std::max(s.longest, (q.size(0) + kTokens - 1) / kTokens * kTokens);
  return s;
}

// The plan of a shape, and with it those of every room: a later batch of more documents finds its
// own, and its step is not timed with the building.
const Plan* plan_for(Shape shape) {
  if (const Plan* plan = cudnn_plans::find_plan(shape)) return plan;
  const std::int64_t wanted = shape.documents;
  if (shape.packed)
    for (const std::int64_t room : kRooms) {
      shape.documents = room;
      (void)cudnn_plans::plan_of(shape);
    }
  shape.documents = wanted;
  return &cudnn_plans::plan_of(shape);
}

at::Tensor bytes(std::int64_t count, const at::Tensor& like) {
  return at::empty({std::max<std::int64_t>(count, 16)}, like.options().dtype(at::kByte));
}

Pointers pointers(const tensor_list& qkv, const Results& results) {
  Pointers p{};
  p.q = qkv[0].const_data_ptr(), p.k = qkv[1].const_data_ptr(), p.v = qkv[2].const_data_ptr();
  p.out = results.out.data_ptr(), p.stats = results.stats.data_ptr();
  p.table = results.table.defined() ? results.table.data_ptr() : nullptr;
  return p;
}

at::Tensor filled_table(const Shape& shape, const Segments& segments, cudaStream_t stream) {
  const at::Tensor table = bytes(cudnn_plans::table_of(shape, nullptr).bytes, segments.cu);
  cudnn_plans::launch_table(cudnn_plans::table_of(shape, table.data_ptr()),
                            segments.cu.const_data_ptr<std::int32_t>(),
                            segments.cu.size(0) - 1,
                            stream);
  ASSAY_CUDA(cudaGetLastError());
  return table;
}

Results forward_pass(const CudnnCall& call, const tensor_list& qkv, const Segments& segments) {
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  const Shape& s = call.shape;
  const at::TensorOptions options = qkv[0].options();
  const std::int64_t tokens = qkv[0].size(0);
  Results results;
  results.out = at::empty({tokens, s.heads, s.width_v}, options);
  results.stats = at::empty({tokens * s.heads}, options.dtype(at::kFloat));
  if (s.packed) results.table = filled_table(s, segments, stream);
  const at::Tensor workspace = bytes(cudnn_plans::forward_workspace_bytes(*call.plan), qkv[0]);
  Pointers p = pointers(qkv, results);
  p.workspace = workspace.data_ptr();
  cudnn_plans::run_forward(*call.plan, p, stream);
  count(s.packed ? "kernel/cudnn_documents" : "kernel/cudnn_rows");
  return results;
}

// Writes all of `gradients`: of q, k and v.
void backward_pass(const CudnnCall& call,
                   const tensor_list& qkv,
                   const Results& results,
                   const at::Tensor& grad,
                   const tensor_list& gradients) {
  const at::Tensor d_out = aligned(grad);
  const at::Tensor workspace = bytes(cudnn_plans::backward_workspace_bytes(*call.plan), qkv[0]);
  Pointers p = pointers(qkv, results);
  p.d_out = d_out.const_data_ptr();
  p.dq = gradients[0].data_ptr(), p.dk = gradients[1].data_ptr(), p.dv = gradients[2].data_ptr();
  p.workspace = workspace.data_ptr();
  cudnn_plans::run_backward(*call.plan, p, c10::cuda::getCurrentCUDAStream());
}

std::shared_ptr<const CudnnCall> call_of(const Shape& shape) {
  return std::make_shared<const CudnnCall>(CudnnCall{shape, plan_for(shape)});
}

struct CudnnAttention : torch::autograd::Function<CudnnAttention> {
  static at::Tensor forward(AutogradContext* ctx,
                            const at::Tensor& given_q,
                            const at::Tensor& given_k,
                            const at::Tensor& given_v,
                            const Request& request) {
    const c10::OptionalDeviceGuard guard(given_q.device());
    const tensor_list qkv{aligned(given_q), aligned(given_k), aligned(given_v)};
    const auto call = call_of(shape_of(qkv, request, false));
    const Results results = forward_pass(*call, qkv, request.segments);
    ctx->save_for_backward({qkv[0], qkv[1], qkv[2], results.out, results.stats, results.table});
    ctx->saved_data["call"] = hold(call);
    return results.out;
  }

  static tensor_list backward(AutogradContext* ctx, const tensor_list& grads) {
    const tensor_list saved = ctx->get_saved_variables(), qkv{saved[0], saved[1], saved[2]};
    const c10::OptionalDeviceGuard guard(saved[0].device());
    tensor_list gradients;
    for (const at::Tensor& x : qkv) gradients.push_back(at::empty(x.sizes(), x.options()));
    backward_pass(held<CudnnCall>(ctx->saved_data["call"]),
                  qkv,
                  {saved[3], saved[4], saved[5]},
                  grads[0],
                  gradients);
    gradients.emplace_back();
    return gradients;
  }
};

// As CudnnAttention of the parts of one tensor, whose gradient cuDNN writes part by part.
struct JoinedCudnnAttention : torch::autograd::Function<JoinedCudnnAttention> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& given, const Request& request) {
    const c10::OptionalDeviceGuard guard(given.device());
    const at::Tensor qkv = aligned(given);
    const tensor_list parts = qkv.unbind(1);
    const auto call = call_of(shape_of(parts, request, true));
    const Results results = forward_pass(*call, parts, request.segments);
    count("kernel/cudnn_joined");
    ctx->save_for_backward({qkv, results.out, results.stats, results.table});
    ctx->saved_data["call"] = hold(call);
    return results.out;
  }

  static tensor_list backward(AutogradContext* ctx, const tensor_list& grads) {
    const tensor_list saved = ctx->get_saved_variables();
    const c10::OptionalDeviceGuard guard(saved[0].device());
    const at::Tensor gradient = at::empty(saved[0].sizes(), saved[0].options());
    backward_pass(held<CudnnCall>(ctx->saved_data["call"]),
                  saved[0].unbind(1),
                  {saved[1], saved[2], saved[3]},
                  grads[0],
                  gradient.unbind(1));
    return {gradient, at::Tensor()};
  }
};

void require_half_on_cuda(const at::Tensor& x) {
  const bool half = x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16;
  if (!x.is_cuda() || !half) internal_error("attention by cuDNN needs bf16 or fp16 on CUDA");
}

} // namespace

std::optional<std::int64_t> cudnn_room(std::int64_t documents) {
  const auto* room = std::lower_bound(kRooms.begin(), kRooms.end(), documents);
  return room == kRooms.end() ? std::nullopt : std::optional(*room);
}

at::Tensor cudnn_attention(const at::Tensor& q,
                           const at::Tensor& k,
                           const at::Tensor& v,
                           const Segments& segments,
                           double scale,
                           bool rows,
                           std::int64_t row_length) {
  require_half_on_cuda(q);
  return CudnnAttention::apply(q, k, v, Request{segments, scale, rows, row_length});
}

at::Tensor joined_cudnn_attention(const at::Tensor& qkv,
                                  const Segments& segments,
                                  double scale,
                                  bool rows,
                                  std::int64_t row_length) {
  require_half_on_cuda(qkv);
  return JoinedCudnnAttention::apply(qkv, Request{segments, scale, rows, row_length});
}

} // namespace assay
