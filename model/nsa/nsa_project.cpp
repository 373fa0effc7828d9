#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/autograd/custom_function.h>

#include "core/span.h"
#include "kernels/cuda_check.h"
#include "kernels/nsa/inputs.h"
#include "model/layers/attention/attention.h"
#include "model/layers/autocast.h"
#include "model/layers/autograd_holder.h"
#include "model/layers/bf16_data.h"
#include "model/nsa/nsa_inputs.h"
#include "model/nsa/nsa_strided.h"
#include "model/nsa/selected_attention.h"

namespace assay {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

// Outputs of the function, in this order.
enum Part { kQCmp, kQSel, kQWin, kMean, kKBlocks, kVBlocks, kKSel, kKWin, kVSel, kVWin, kParts };

// --- kernels -------------------------------------------------------------------------------------

bool takes_kernels(const at::Tensor& product,
                   const NsaLayout& layout,
                   const NsaSizes& sizes,
                   std::int64_t gate_dim) {
  if (!product.is_cuda() || product.scalar_type() != at::kBFloat16) return false;
  if (product.size(1) != (sizes.heads + 6 * sizes.groups) * nsa::kWidth) return false;
  const auto rows = [&](std::int64_t heads) {
    return product.narrow(1, 0, heads * nsa::kWidth).unflatten(1, {heads, nsa::kWidth});
  };
  return gate_dim <= nsa::kMostGate && strided_fits(rows(sizes.heads), rows(sizes.groups), layout);
}

tensor_list device_project(const at::Tensor& given,
                           const at::Tensor& cos,
                           const at::Tensor& sin,
                           const NsaLayout& layout,
                           const NsaSizes& sizes) {
  const c10::cuda::CUDAGuard guard(given.device());
  const at::Tensor product = loadable(given);
  const std::int64_t tokens = layout.tokens, blocks = layout.compressed_blocks;
  const auto empty = [&](std::int64_t rows, std::int64_t heads) {
    return at::empty({rows, heads, nsa::kWidth}, product.options());
  };
  tensor_list out(kParts);
  out[kQCmp] = empty(blocks, sizes.heads * layout.shape.stride);
  out[kQSel] = empty(tokens, sizes.heads);
  out[kMean] = at::empty({tokens, sizes.groups, nsa::kWidth}, cos.options());
  for (const Part part : {kKBlocks, kVBlocks}) out[part] = empty(blocks, sizes.groups);
  for (const Part part : {kKSel, kKWin, kVSel, kVWin}) out[part] = empty(tokens, sizes.groups);
  nsa::Inputs p{};
  p.product = bf16_data(product);
  p.cos = cos.const_data_ptr<float>(), p.sin = sin.const_data_ptr<float>();
  p.place = layout.strided_place.const_data_ptr<std::int64_t>();
  p.place_token = layout.strided_token.const_data_ptr<std::int64_t>();
  p.block_tokens = layout.block_tokens.const_data_ptr<std::int64_t>();
  p.q = bf16_data(out[kQSel]), p.q_places = bf16_data(out[kQCmp]);
  p.mean = out[kMean].data_ptr<float>();
  for (std::size_t i = 0; i < 4; ++i) p.branch[i] = bf16_data(out[kKSel + i]);
  p.k_blocks = bf16_data(out[kKBlocks]), p.v_blocks = bf16_data(out[kVBlocks]);
  p.tokens = static_cast<int>(tokens), p.heads = static_cast<int>(sizes.heads);
  p.groups = static_cast<int>(sizes.groups), p.blocks = static_cast<int>(blocks);
  p.length = static_cast<int>(layout.shape.block), p.stride = static_cast<int>(layout.shape.stride);
  nsa::launch_inputs(p, c10::cuda::getCurrentCUDAStream());
  check_cuda(cudaGetLastError(), "inputs of sparse attention, forward");
  out[kQWin] = out[kQSel].view(out[kQSel].sizes());
  return out;
}

at::Tensor device_project_backward(const tensor_list& given,
                                   const at::Tensor& cos,
                                   const at::Tensor& sin,
                                   const NsaLayout& layout) {
  const c10::cuda::CUDAGuard guard(cos.device());
  tensor_list grads;
  for (std::size_t i = 0; i < kParts; ++i)
    grads.push_back(loadable(given[i].to(i == kMean ? at::kFloat : at::kBFloat16)));
  const std::int64_t tokens = layout.tokens, heads = grads[kQSel].size(1),
                     groups = grads[kMean].size(1);
  at::Tensor d_product =
      at::empty({tokens, (heads + 6 * groups) * nsa::kWidth}, grads[kQSel].options());
  const auto data = [&](std::size_t part) {
    return static_cast<const bf16*>(grads[part].const_data_ptr());
  };
  nsa::InputsBackward p{};
  p.cos = cos.const_data_ptr<float>(), p.sin = sin.const_data_ptr<float>();
  p.place = layout.strided_place.const_data_ptr<std::int64_t>();
  p.token_blocks = layout.token_blocks.const_data_ptr<std::int64_t>();
  p.d_q[0] = data(kQSel), p.d_q[1] = data(kQWin), p.d_q_places = data(kQCmp);
  p.d_mean = grads[kMean].const_data_ptr<float>();
  for (std::size_t i = 0; i < 4; ++i) p.d_branch[i] = data(kKSel + i);
  p.d_blocks[0] = data(kKBlocks), p.d_blocks[1] = data(kVBlocks);
  p.d_product = bf16_data(d_product);
  p.tokens = static_cast<int>(tokens), p.heads = static_cast<int>(heads);
  p.groups = static_cast<int>(groups), p.blocks = static_cast<int>(layout.compressed_blocks);
  p.length = static_cast<int>(layout.shape.block), p.stride = static_cast<int>(layout.shape.stride);
  nsa::launch_inputs_backward(p, c10::cuda::getCurrentCUDAStream());
  check_cuda(cudaGetLastError(), "inputs of sparse attention, backward");
  return d_product;
}

// --- the same in tensor operations ---------------------------------------------------------------

// [T, H + 6 G, D]: rows of q, of k and of v.
struct Rows {
  at::Tensor q, k, v;

  Rows(const at::Tensor& all, const NsaSizes& sizes)
      : q(all.narrow(1, 0, sizes.heads)), k(all.narrow(1, sizes.heads, 3 * sizes.groups)),
        v(all.narrow(1, sizes.heads + 3 * sizes.groups, 3 * sizes.groups)) {}
};

tensor_list plain_project(const at::Tensor& product,
                          const at::Tensor& cos,
                          const at::Tensor& sin,
                          const NsaLayout& layout,
                          const NsaSizes& sizes) {
  const at::ScalarType type = product.scalar_type();
  const Rows rows(product.to(wide_type(product)).unflatten(1, {sizes.heads + 6 * sizes.groups, -1}),
                  sizes);
  const at::Tensor q = apply_rope(rows.q, cos, sin), k = apply_rope(rows.k, cos, sin);
  const auto branch = [&](const at::Tensor& x, std::int64_t i) {
    return x.narrow(1, i * sizes.groups, sizes.groups).to(type).contiguous();
  };
  tensor_list out(kParts);
  out[kQCmp] = q.to(type).contiguous();
  out[kQSel] = out[kQCmp].view(q.sizes()), out[kQWin] = out[kQCmp].view(q.sizes());
  out[kMean] = q.unflatten(1, {sizes.groups, -1}).mean(2);
  out[kKBlocks] = nsa_block_means(k.narrow(1, 0, sizes.groups), layout).to(type);
  out[kVBlocks] = nsa_block_means(rows.v.narrow(1, 0, sizes.groups), layout).to(type);
  out[kKSel] = branch(k, 1), out[kKWin] = branch(k, 2);
  out[kVSel] = branch(rows.v, 1), out[kVWin] = branch(rows.v, 2);
  return out;
}

at::Tensor plain_project_backward(const tensor_list& given,
                                  const at::Tensor& cos,
                                  const at::Tensor& sin,
                                  const NsaLayout& layout) {
  const at::ScalarType type = given[kQSel].scalar_type();
  tensor_list d;
  for (const at::Tensor& grad : given) d.push_back(grad.to(wide_type(grad)));
  const at::Tensor mean = d[kMean].unsqueeze(2), back = sin.neg();
  const std::int64_t own = d[kQSel].size(1) / mean.size(1);
  const at::Tensor shared =
      (mean / static_cast<double>(own)).expand({-1, -1, own, -1}).flatten(1, 2);
  const at::Tensor dq = d[kQCmp] + d[kQSel] + d[kQWin] + shared;
  const at::Tensor dk =
      at::cat({nsa_block_means_gradient(d[kKBlocks], layout), d[kKSel], d[kKWin]}, 1);
  return at::cat({apply_rope(dq, cos, back),
                  apply_rope(dk, cos, back),
                  nsa_block_means_gradient(d[kVBlocks], layout),
                  d[kVSel],
                  d[kVWin]},
                 1)
      .flatten(1)
      .to(type);
}

struct Project : torch::autograd::Function<Project> {
  static tensor_list forward(AutogradContext* ctx,
                             const at::Tensor& product,
                             const at::Tensor& cos,
                             const at::Tensor& sin,
                             const NsaLayoutPtr& layout,
                             const NsaSizes& sizes,
                             bool kernels) {
    const AutocastGuard full_precision(product.device().type(), at::kFloat);
    ctx->save_for_backward({cos, sin});
    ctx->saved_data["layout"] = hold(layout);
    ctx->saved_data["kernels"] = kernels;
    return (kernels ? device_project : plain_project)(product, cos, sin, *layout, sizes);
  }

  static tensor_list backward(AutogradContext* ctx, const tensor_list& grads) {
    const AutocastGuard full_precision(grads[0].device().type(), at::kFloat);
    const tensor_list saved = ctx->get_saved_variables();
    const auto& layout = held<NsaLayout>(ctx->saved_data["layout"]);
    const auto run =
        ctx->saved_data["kernels"].toBool() ? device_project_backward : plain_project_backward;
    tensor_list result(6);
    result[0] = run(grads, saved[0], saved[1], layout);
    return result;
  }
};

} // namespace

NsaProjected nsa_project(const at::Tensor& product,
                         const Rotary& rotary,
                         const NsaLayoutPtr& layout,
                         const NsaSizes& sizes,
                         std::int64_t gate_dim) {
  const Span span("nsa_inputs/fused");
  const bool kernels = takes_kernels(product, *layout, sizes, gate_dim);
  const tensor_list out = Project::apply(product, rotary.cos, rotary.sin, layout, sizes, kernels);
  NsaProjected p;
  p.at_places = kernels;
  p.q_cmp = out[kQCmp], p.q_sel = out[kQSel], p.q_win = out[kQWin], p.mean = out[kMean];
  p.k_blocks = out[kKBlocks], p.v_blocks = out[kVBlocks];
  p.k_sel = out[kKSel], p.k_win = out[kKWin], p.v_sel = out[kVSel], p.v_win = out[kVWin];
  return p;
}

} // namespace assay
