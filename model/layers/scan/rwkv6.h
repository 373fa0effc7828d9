// RWKV-6's time mixing (arXiv 2404.05892, section 4.2, "Finch"). Per head, with state S [K, V] = 0
// at each segment's start:
//   o_t = (S + (u * k_t) v_t^T)^T r_t;  S <- e^{w_t} S + k_t v_t^T     (e^{w_t} scales rows of S)
#pragma once

#include <ATen/ATen.h>

#include "model/config/train_config.h"
#include "model/layout/batch.h"

namespace assay {

// r, k and w (log decay of a channel, <= 0) [T, H, K], v [T, H, V], u [H, K] -> [T, H, V] in v's
// dtype. `loop` and `chunked` compute in fp64 when r is fp64, else in fp32, whatever autocast is.

// The recurrence, one token of every segment at a time, through plain autograd: the reference.
at::Tensor rwkv6_loop(const at::Tensor& r,
                      const at::Tensor& k,
                      const at::Tensor& v,
                      const at::Tensor& w,
                      const at::Tensor& u,
                      const Segments& segments);

// The same for one segment that goes on from `state` [1, H, K, V] (undefined: 0), which then is the
// one behind it.
at::Tensor rwkv6_piece(const at::Tensor& r,
                       const at::Tensor& k,
                       const at::Tensor& v,
                       const at::Tensor& w,
                       const at::Tensor& u,
                       at::Tensor& state);

// Chunks of layout.chunk tokens, a power of two, with a hand-written backward: matrix products over
// all chunks at once, and a scan over the chunks of a segment. Needs segments.chunks.
at::Tensor rwkv6_chunked(const at::Tensor& r,
                         const at::Tensor& k,
                         const at::Tensor& v,
                         const at::Tensor& w,
                         const at::Tensor& u,
                         const Segments& segments);

// The same without a span of its own, for whichever form runs it.
at::Tensor rwkv6_in_operators(const at::Tensor& r,
                              const at::Tensor& k,
                              const at::Tensor& v,
                              const at::Tensor& w,
                              const at::Tensor& u,
                              const Segments& segments);

// The kernels of kernels/scan on a GPU: r, k, v and w rounded to bf16, sums in fp32; chunks of 64
// tokens and K = V = 64, else an internal error. On a CPU the chunk form. Needs segments.chunks.
at::Tensor rwkv6_fused(const at::Tensor& r,
                       const at::Tensor& k,
                       const at::Tensor& v,
                       const at::Tensor& w,
                       const at::Tensor& u,
                       const Segments& segments);

using Rwkv6 = at::Tensor (*)(const at::Tensor& r,
                             const at::Tensor& k,
                             const at::Tensor& v,
                             const at::Tensor& w,
                             const at::Tensor& u,
                             const Segments& segments);
Rwkv6 rwkv6_of(ScanForm form);

} // namespace assay
