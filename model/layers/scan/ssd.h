// State space duality of Mamba-2 (arXiv 2405.21060, section 6). Per head, with state S [N, P] = 0
// at each segment's start:
//   S <- e^{a_t} S + b_t x_t^T;  y_t = S^T c_t
#pragma once

#include <ATen/ATen.h>

#include "model/config/train_config.h"
#include "model/layout/batch.h"

namespace assay {

// x [T, H, P], a (log decay, <= 0) [T, H], b and c [T, G, N], G divides H: head h reads group
// h / (H / G) -> [T, H, P] in x's dtype. `loop` and `chunked` compute in fp64 when x is fp64, else
// in fp32, whatever autocast is.

// The recurrence, one token of every segment at a time, through plain autograd: the reference.
at::Tensor ssd_loop(const at::Tensor& x,
                    const at::Tensor& a,
                    const at::Tensor& b,
                    const at::Tensor& c,
                    const Segments& segments);

// The same for one segment that goes on from `state` [1, H, N, P] (undefined: 0), which then is the
// one behind it.
at::Tensor ssd_piece(const at::Tensor& x,
                     const at::Tensor& a,
                     const at::Tensor& b,
                     const at::Tensor& c,
                     at::Tensor& state);

// Chunks of layout.chunk tokens with a hand-written backward: matrix products over all chunks at
// once, and a scan over the chunks of a segment. Needs segments.chunks.
at::Tensor ssd_chunked(const at::Tensor& x,
                       const at::Tensor& a,
                       const at::Tensor& b,
                       const at::Tensor& c,
                       const Segments& segments);

// The same without a span of its own, for whichever form runs it.
at::Tensor ssd_in_operators(const at::Tensor& x,
                            const at::Tensor& a,
                            const at::Tensor& b,
                            const at::Tensor& c,
                            const Segments& segments);

// The kernels of kernels/scan on a GPU: x, b and c rounded to bf16, sums in fp32; chunks of 64
// tokens, P a multiple of 64 and N 64 or 128, else an internal error. On a CPU the chunk form.
// Needs segments.chunks.
at::Tensor ssd_fused(const at::Tensor& x,
                     const at::Tensor& a,
                     const at::Tensor& b,
                     const at::Tensor& c,
                     const Segments& segments);

using Ssd = at::Tensor (*)(const at::Tensor& x,
                           const at::Tensor& a,
                           const at::Tensor& b,
                           const at::Tensor& c,
                           const Segments& segments);
Ssd ssd_of(ScanForm form);

} // namespace assay
