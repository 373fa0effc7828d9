// Causal softmax attention in tensor operations, on any device.
#pragma once

#include <ATen/ATen.h>

#include "model/layout/batch.h"

namespace assay {

// q, k [T, H, Dqk], v [T, H, Dv] -> [T, H, Dv] in v's dtype; causal inside each segment. Computes
// in fp64 from fp64, else in fp32, whatever autocast is, over chunks of at most 512 queries: scores
// of H * 512 * longest segment are the most that is held.
at::Tensor math_attention(const at::Tensor& q,
                          const at::Tensor& k,
                          const at::Tensor& v,
                          const Segments& segments,
                          double scale);

// The same for the last T of N tokens of one segment: q [T, H, Dqk], k [N, H, Dqk], v [N, H, Dv] ->
// [T, H, Dv]. It holds 2^26 scores at a time, or those of one query, H * N.
at::Tensor
carried_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale);

} // namespace assay
