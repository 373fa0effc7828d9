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

// As a plan takes it. Parts of wider rows are copied: with them cuDNN 9.19 ended in an illegal
// instruction on compute capability 9.0.
at::Tensor aligned(const at::Tensor& x) {
  const at::Tensor whole = x.contiguous();
  const bool fits = reinterpret_cast<std::uintptr_t>(whole.const_data_ptr()) % 16 == 0;
  return fits ? whole : whole.clone();
}

Shape shape_of(const tensor_list& qkv,
               const Segments& segments,
               double scale,
               bool rows,
               std::int64_t row_length) {
  const at::Tensor &q = qkv[0], &v = qkv[2];
  Shape s;
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

struct CudnnAttention : torch::autograd::Function<CudnnAttention> {
  static at::Tensor forward(AutogradContext* ctx,
                            const at::Tensor& given_q,
                            const at::Tensor& given_k,
                            const at::Tensor& given_v,
                            const Segments& segments,
                            double scale,
                            bool rows,
                            std::int64_t row_length) {
    const c10::OptionalDeviceGuard guard(given_q.device());
    const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
    const tensor_list qkv{aligned(given_q), aligned(given_k), aligned(given_v)};
    const auto call = std::make_shared<CudnnCall>();
    call->shape = shape_of(qkv, segments, scale, rows, row_length);
    call->plan = plan_for(call->shape);
    const Shape& s = call->shape;
    const at::Tensor out = at::empty({qkv[0].size(0), s.heads, s.width_v}, given_q.options());
    const at::Tensor stats =
        at::empty({qkv[0].size(0) * s.heads}, given_q.options().dtype(at::kFloat));
    at::Tensor table;
    if (s.packed) {
      table = bytes(cudnn_plans::table_of(s, nullptr).bytes, out);
      cudnn_plans::launch_table(cudnn_plans::table_of(s, table.data_ptr()),
                                segments.cu.const_data_ptr<std::int32_t>(),
                                segments.cu.size(0) - 1,
                                stream);
      ASSAY_CUDA(cudaGetLastError());
    }
    const at::Tensor workspace = bytes(cudnn_plans::forward_workspace_bytes(*call->plan), out);
    Pointers p = pointers(qkv, out, stats, table);
    p.workspace = workspace.data_ptr();
    cudnn_plans::run_forward(*call->plan, p, stream);
    count(rows ? "kernel/cudnn_rows" : "kernel/cudnn_documents");
    ctx->save_for_backward({qkv[0], qkv[1], qkv[2], out, stats, table});
    ctx->saved_data["call"] = hold(std::shared_ptr<const CudnnCall>(call));
    return out;
  }

  static tensor_list backward(AutogradContext* ctx, const tensor_list& grads) {
    const tensor_list saved = ctx->get_saved_variables();
    const CudnnCall& call = held<CudnnCall>(ctx->saved_data["call"]);
    const c10::OptionalDeviceGuard guard(saved[0].device());
    const at::Tensor d_out = aligned(grads[0]);
    const auto gradient = [](const at::Tensor& x) { return at::empty(x.sizes(), x.options()); };
    const at::Tensor dq = gradient(saved[0]), dk = gradient(saved[1]), dv = gradient(saved[2]);
    const at::Tensor workspace = bytes(cudnn_plans::backward_workspace_bytes(*call.plan), dq);
    Pointers p = pointers({saved[0], saved[1], saved[2]}, saved[3], saved[4], saved[5]);
    p.d_out = d_out.const_data_ptr();
    p.dq = dq.data_ptr(), p.dk = dk.data_ptr(), p.dv = dv.data_ptr();
    p.workspace = workspace.data_ptr();
    cudnn_plans::run_backward(*call.plan, p, c10::cuda::getCurrentCUDAStream());
    const at::Tensor none;
    return {dq, dk, dv, none, none, none, none};
  }

private:
  static Pointers pointers(const tensor_list& qkv,
                           const at::Tensor& out,
                           const at::Tensor& stats,
                           const at::Tensor& table) {
    Pointers p{};
    p.q = qkv[0].const_data_ptr(), p.k = qkv[1].const_data_ptr(), p.v = qkv[2].const_data_ptr();
    p.out = out.data_ptr(), p.stats = stats.data_ptr();
    p.table = table.defined() ? table.data_ptr() : nullptr;
    return p;
  }
};

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
  const bool half = q.scalar_type() == at::kHalf || q.scalar_type() == at::kBFloat16;
  if (!q.is_cuda() || !half) internal_error("attention by cuDNN needs bf16 or fp16 on CUDA");
  return CudnnAttention::apply(q, k, v, segments, scale, rows, row_length);
}

} // namespace assay
