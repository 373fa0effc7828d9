#include "model/nsa/nsa_strided.h"

#include <ATen/core/grad_mode.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/cuda_check.h"
#include "kernels/nsa/places.h"
#include "kernels/nsa/select.h"
#include "model/layers/autograd_holder.h"
#include "model/nsa/selected_attention.h"

namespace assay {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

// [T, H, D] -> [Nc, H*d, D]: head h of the i-th of d queries becomes head h*d + i; places without a
// query are zero. Or back: queries without a place are zero.
at::Tensor move_rows(const at::Tensor& given, const NsaLayout& layout, bool to_places) {
  const c10::cuda::CUDAGuard device(given.device());
  const at::Tensor x = loadable(given),
                   &index = to_places ? layout.strided_token : layout.strided_place;
  const std::int64_t stride = layout.shape.stride, width = x.size(2),
                     heads = to_places ? x.size(1) : x.size(1) / stride;
  at::Tensor moved = to_places
                         ? at::empty({index.size(0) / stride, heads * stride, width}, x.options())
                         : at::empty({index.size(0), heads, width}, x.options());
  PlacesProblem p{};
  p.from = static_cast<const bf16*>(x.const_data_ptr());
  p.to = static_cast<bf16*>(moved.mutable_data_ptr());
  p.index = index.const_data_ptr<std::int64_t>(), p.count = index.size(0);
  p.heads = static_cast<int>(heads), p.width = static_cast<int>(width);
  p.stride = static_cast<int>(stride);
  (to_places ? launch_to_places : launch_from_places)(p, c10::cuda::getCurrentCUDAStream());
  check_cuda(cudaGetLastError(), "queries of the compressed branch");
  return moved;
}

struct MoveRows : torch::autograd::Function<MoveRows> {
  static at::Tensor
  forward(AutogradContext* ctx, const at::Tensor& x, const NsaLayoutPtr& layout, bool to_places) {
    ctx->saved_data["layout"] = hold(layout);
    ctx->saved_data["to_places"] = to_places;
    return move_rows(x, *layout, to_places);
  }
  static tensor_list backward(AutogradContext* ctx, const tensor_list& grads) {
    const auto& layout = held<NsaLayout>(ctx->saved_data["layout"]);
    return {move_rows(grads[0], layout, !ctx->saved_data["to_places"].toBool()),
            at::Tensor(),
            at::Tensor()};
  }
};

// Shapes alone.
SelectProblem
problem_of(const at::Tensor& q, const at::Tensor& compressed, const NsaLayout& layout) {
  const NsaShape& shape = layout.shape;
  const std::int64_t longest = layout.documents.max_len;
  SelectProblem p{};
  p.type = element_type(compressed.scalar_type());
  p.compressed = compressed.size(0);
  p.tokens = static_cast<int>(q.size(0)), p.heads = static_cast<int>(q.size(1));
  p.groups = static_cast<int>(compressed.size(1)), p.width = static_cast<int>(q.size(2));
  p.stride = static_cast<int>(shape.stride);
  p.compressed_overlap = static_cast<int>(shape.block / shape.stride);
  p.select_block = static_cast<int>(shape.select_block);
  p.count = static_cast<int>(shape.select_count);
  p.most_keys =
      static_cast<int>(longest < shape.block ? 0 : (longest - shape.block) / shape.stride + 1);
  p.most_blocks = static_cast<int>(longest / shape.select_block + 1);
  return p;
}

} // namespace

bool strided_fits(const at::Tensor& q, const at::Tensor& v_compressed, const NsaLayout& layout) {
  const at::ScalarType type = v_compressed.scalar_type();
  return v_compressed.is_cuda() && (type == at::kBFloat16 || type == at::kHalf) &&
         layout.compressed_blocks > 0 && select_fits(problem_of(q, v_compressed, layout));
}

VarlenResult places_attention(const at::Tensor& q,
                              const at::Tensor& k_compressed,
                              const at::Tensor& v_compressed,
                              const NsaLayout& layout,
                              double scale) {
  return varlen_attention_with_lse(
      q, k_compressed, v_compressed, layout.compressed_documents, scale);
}

VarlenResult strided_attention(const at::Tensor& q,
                               const at::Tensor& k_compressed,
                               const at::Tensor& v_compressed,
                               const NsaLayoutPtr& layout,
                               double scale) {
  const VarlenResult result = places_attention(
      MoveRows::apply(q, layout, true), k_compressed, v_compressed, *layout, scale);
  return {MoveRows::apply(result.out, layout, false), result.lse};
}

at::Tensor strided_select(const at::Tensor& given,
                          const at::Tensor& given_key,
                          const at::Tensor& lse,
                          const NsaLayout& layout,
                          double scale) {
  const at::NoGradGuard no_grad;
  const c10::cuda::CUDAGuard device(given.device());
  const at::Tensor q = loadable(given), k = loadable(given_key);
  at::Tensor blocks = at::empty({layout.tokens, k.size(1), layout.shape.select_count},
                                layout.strided_place.options());
  SelectProblem problem = problem_of(q, k, layout);
  problem.q = q.const_data_ptr(), problem.k = k.const_data_ptr();
  problem.lse = lse.const_data_ptr<float>();
  problem.place = layout.strided_place.const_data_ptr<std::int64_t>();
  problem.first = layout.compressed.first.const_data_ptr<std::int64_t>();
  problem.end = layout.compressed.end.const_data_ptr<std::int64_t>();
  problem.position = layout.position.const_data_ptr<std::int32_t>();
  problem.blocks = blocks.mutable_data_ptr<std::int64_t>();
  problem.scale = static_cast<float>(scale);
  ASSAY_CUDA(launch_nsa_select(problem, c10::cuda::getCurrentCUDAStream().stream()));
  return blocks;
}

} // namespace assay
