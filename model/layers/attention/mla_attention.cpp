#include "model/layers/attention/mla_attention.h"

#include <vector>

#include "core/fallback.h"
#include "core/result.h"
#include "core/span.h"
#include "model/layers/attention/attention.h"
#include "model/layers/attention/cudnn_attention.h"
#include "model/layers/attention/math_attention.h"
#include "model/layers/attention/varlen_attention.h"

namespace assay {

namespace {

const char* span_name(MlaAttention choice) {
  switch (choice) {
  case MlaAttention::FlashPadded:
    return "mla_attention/flash_padded";
  case MlaAttention::Cudnn:
    return "mla_attention/cudnn";
  case MlaAttention::Efficient:
    return "mla_attention/efficient";
  case MlaAttention::Math:
    return "mla_attention/math";
  }
  internal_error("unknown choice of mla_attention");
}

// What runs of what was chosen.
MlaAttention possible(MlaAttention choice, const Segments& segments, bool rows) {
  if (choice != MlaAttention::Cudnn || rows || cudnn_room(segments.cu.size(0) - 1)) return choice;
  note_fallback("fallback/mla_attention");
  return MlaAttention::FlashPadded;
}

struct Heads {
  at::Tensor q, k, v;
  at::Tensor joined; // [T, 3, H, d], whose parts they are; undefined: they stand alone
};

at::Tensor run(const Heads& in,
               const Segments& segments,
               Attention path,
               double scale,
               MlaAttention choice,
               std::int64_t row_length) {
  const auto& [q, k, v, joined] = in;
  const bool rows = path == Attention::Packed;
  const MlaAttention runs = possible(choice, segments, rows);
  const Span span(span_name(runs));
  if (runs == MlaAttention::FlashPadded) return causal_attention(q, k, v, segments, path, scale);
  if (path != Attention::Packed && path != Attention::Varlen)
    internal_error("{} takes no other mask", span_name(runs));
  const Span path_span(attention_span(path));
  switch (runs) {
  case MlaAttention::Cudnn:
    if (joined.defined()) return joined_cudnn_attention(joined, segments, scale, rows, row_length);
    return cudnn_attention(q, k, v, segments, scale, rows, row_length);
  case MlaAttention::Efficient:
    return efficient_attention(q, k, v, segments, scale);
  default:
    return math_attention(q, k, v, segments, scale);
  }
}

} // namespace

at::Tensor mla_attention(const at::Tensor& q,
                         const at::Tensor& k,
                         const at::Tensor& v,
                         const Segments& segments,
                         Attention path,
                         double scale,
                         MlaAttention choice,
                         std::int64_t row_length) {
  return run({q, k, v, at::Tensor()}, segments, path, scale, choice, row_length);
}

at::Tensor joined_attention(const at::Tensor& qkv,
                            const Segments& segments,
                            Attention path,
                            double scale,
                            MlaAttention choice,
                            std::int64_t row_length) {
  const std::vector<at::Tensor> parts = qkv.unbind(1);
  return run({parts[0], parts[1], parts[2], qkv}, segments, path, scale, choice, row_length);
}

} // namespace assay
