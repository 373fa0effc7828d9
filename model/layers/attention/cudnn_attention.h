// Causal attention by cuDNN's plans, as an autograd function.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>

#include "model/layout/batch.h"

namespace assay {

// Documents for which the plan of a batch has room: 64, 96, 128, 192 or 256; nothing above.
std::optional<std::int64_t> cudnn_room(std::int64_t documents);

// q, k [T, H, Dqk], v [T, H, Dv] in bf16 or fp16 on CUDA, any strides -> [T, H, Dv]; causal inside
// each segment. `rows`: the segments have one length, and a plan for exactly them is made; else
// they are documents, of which cudnn_room() must have room for all. The first call of a shape
// builds its plans, of every room: a quarter of a second each. `row_length`: of a batch's rows, so
// that one plan fits them all. Backward adds up q's gradient in any order. Needs compute capability
// 9.0, else Failure.
at::Tensor cudnn_attention(const at::Tensor& q,
                           const at::Tensor& k,
                           const at::Tensor& v,
                           const Segments& segments,
                           double scale,
                           bool rows,
                           std::int64_t row_length);

// The same of qkv [T, 3, H, d]: queries, keys and values. Contiguous, it is read where it is, and
// its gradient is written without joining parts. Counts "kernel/cudnn_joined" besides.
at::Tensor joined_cudnn_attention(const at::Tensor& qkv,
                                  const Segments& segments,
                                  double scale,
                                  bool rows,
                                  std::int64_t row_length);

} // namespace assay
