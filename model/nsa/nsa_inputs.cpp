#include "model/nsa/nsa_inputs.h"

#include "core/span.h"
#include "model/nsa/nsa_strided.h"

namespace assay {

namespace {

// The compressed branch and what its softmax sums up to; without the latter, which only the kernels
// give, blocks are chosen by tensor operations.
VarlenResult compressed(const NsaProjected& p, const NsaLayoutPtr& layout, double scale) {
  if (p.at_places) return places_attention(p.q_cmp, p.k_blocks, p.v_blocks, *layout, scale);
  if (strided_fits(p.q_cmp, p.v_blocks, *layout))
    return strided_attention(p.q_cmp, p.k_blocks, p.v_blocks, layout, scale);
  return {nsa_compressed_attention(p.q_cmp, p.k_blocks, p.v_blocks, layout, scale), at::Tensor()};
}

} // namespace

at::Tensor nsa_fused_attention(const at::Tensor& product,
                               const Rotary& rotary,
                               const NsaGateWeights& gate,
                               const NsaLayoutPtr& layout,
                               const NsaSizes& sizes,
                               double scale,
                               NsaRanges ranges) {
  const auto spanned = [](const char* name, const auto& run) {
    const Span span(name);
    return run();
  };
  const NsaProjected p = spanned(
      "nsa/compress", [&] { return nsa_project(product, rotary, layout, sizes, gate.in.size(0)); });
  const VarlenResult first =
      spanned("nsa/compressed", [&] { return compressed(p, layout, scale); });
  const at::Tensor blocks = spanned("nsa/select", [&] {
    return first.lse.defined() ? strided_select(p.q_sel, p.k_blocks, first.lse, *layout, scale)
                               : nsa_select_blocks(p.q_sel, p.k_blocks, *layout, scale);
  });
  const at::Tensor selected = spanned("nsa/selected", [&] {
    return nsa_selected_attention(p.q_sel, p.k_sel, p.v_sel, blocks, layout, scale, ranges);
  });
  const at::Tensor window = spanned(
      "nsa/window", [&] { return nsa_window_attention(p.q_win, p.k_win, p.v_win, layout, scale); });
  return nsa_gated_mix({first.out, selected, window}, p.mean, gate, layout, p.at_places);
}

} // namespace assay
