#include "model/layers/attention/attention.h"

#include <ATen/SDPBackend.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "core/result.h"
#include "core/span.h"
#include "model/layers/attention/varlen_attention.h"
#include "model/layers/autocast.h"
#include "model/layout/segments.h"

namespace assay {

namespace {

const char* backend_counter(std::int64_t backend, bool cuda) {
  switch (static_cast<at::SDPBackend>(backend)) {
  case at::SDPBackend::flash_attention:
    return cuda ? "kernel/sdpa_flash" : "kernel/sdpa_flash_cpu";
  case at::SDPBackend::efficient_attention:
    return "kernel/sdpa_efficient";
  case at::SDPBackend::cudnn_attention:
    return "kernel/sdpa_cudnn";
  case at::SDPBackend::math:
    return "kernel/sdpa_math";
  default:
    return "kernel/sdpa_other";
  }
}

// The slow way: rows of equal length, and a mask that is materialized.
at::Tensor dense_mask_attention(const at::Tensor& q,
                                const at::Tensor& k,
                                const at::Tensor& v,
                                const Segments& rows,
                                double scale) {
  const std::int64_t heads = q.size(1), width = q.size(2);
  const std::int64_t count_rows = rows.count();
  const auto as_rows = [&](const at::Tensor& x) {
    return x.reshape({count_rows, -1, heads, width}).transpose(1, 2); // [B, H, L, D]
  };
  if (!rows.causal_mask.defined()) internal_error("the dense mask path needs rows of equal length");
  const at::Tensor mask = rows.causal_mask.to(q.scalar_type());
  const at::Tensor query = as_rows(q), key = as_rows(k), value = as_rows(v);
  if (detail::span_sink.load(std::memory_order_acquire) != nullptr)
    count(backend_counter(at::_fused_sdp_choice(query, key, value, mask, 0.0, false, scale),
                          q.is_cuda()));
  const at::Tensor out =
      at::scaled_dot_product_attention(query, key, value, mask, 0.0, false, scale);
  return out.transpose(1, 2).reshape({-1, heads, width});
}

at::Tensor unmasked_attention(const at::Tensor& q,
                              const at::Tensor& k,
                              const at::Tensor& v,
                              const Segments& documents,
                              double scale) {
  std::vector<at::Tensor> outputs;
  for (std::size_t i = 1; i < documents.cu_host.size(); ++i) {
    const std::int64_t begin = documents.cu_host[i - 1], length = documents.cu_host[i] - begin;
    const auto part = [&](const at::Tensor& x) { // [1, H, L, D]
      return x.narrow(0, begin, length).unsqueeze(0).transpose(1, 2);
    };
    const at::Tensor out =
        at::scaled_dot_product_attention(part(q), part(k), part(v), {}, 0.0, false, scale);
    outputs.push_back(out.transpose(1, 2).squeeze(0));
  }
  return at::cat(outputs);
}

// As they would be if each document but the last had one token more.
Segments shifted(const Segments& documents) {
  std::vector<std::int32_t> ends = documents.cu_host;
  for (std::size_t i = 1; i + 1 < ends.size(); ++i) ends[i] = std::min(ends[i] + 1, ends.back());
  return segments_of(std::move(ends), documents.cu.device());
}

at::Tensor attend_padded(const at::Tensor& q,
                         const at::Tensor& k,
                         const at::Tensor& v,
                         const Segments& segments,
                         Attention path,
                         double scale) {
  if (path == Attention::MaskDense) return dense_mask_attention(q, k, v, segments, scale);
  if (path == Attention::NoCausalMask) return unmasked_attention(q, k, v, segments, scale);
  if (path == Attention::ShiftedBorders) return varlen_attention(q, k, v, shifted(segments), scale);
  return varlen_attention(q, k, v, segments, scale);
}

} // namespace

const char* attention_span(Attention path) {
  switch (path) {
  case Attention::MaskDense:
    return "attention/mask_dense";
  case Attention::Packed:
    return "attention/packed";
  case Attention::Varlen:
    return "attention/varlen";
  case Attention::NoCausalMask:
    return "attention/no_causal_mask";
  case Attention::ShiftedBorders:
    return "attention/shifted_borders";
  }
  internal_error("unknown attention path");
}

bool isolates_documents(Attention path) {
  return path != Attention::MaskDense && path != Attention::Packed;
}

at::Tensor causal_attention(const at::Tensor& q,
                            const at::Tensor& k,
                            const at::Tensor& v,
                            const Segments& segments,
                            Attention path,
                            double scale) {
  const Span span(attention_span(path));
  const std::int64_t width = v.size(2), padding = q.size(2) - width;
  const at::Tensor value = padding > 0 ? at::constant_pad_nd(v, {0, padding}) : v;
  const at::Tensor out = attend_padded(q, k, value, segments, path, scale);
  return padding > 0 ? out.narrow(2, 0, width) : out;
}

at::Tensor apply_rope(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  const at::ScalarType type = wide_type(x);
  const at::Tensor c = cos.to(type), s = sin.to(type);
  const auto pairs = x.to(type).unflatten(-1, {x.size(-1) / 2, 2}).unbind(-1);
  const at::Tensor even = pairs[0] * c - pairs[1] * s, odd = pairs[0] * s + pairs[1] * c;
  return at::stack({even, odd}, -1).flatten(-2).to(x.scalar_type());
}

} // namespace assay
