// Causal softmax attention over packed segments, by the path that the `varlen` optimization
// chooses.
#pragma once

#include <ATen/ATen.h>

#include "model/config/train_config.h"
#include "model/layout/batch.h"

namespace assay {

// "attention/<path>", a literal.
const char* attention_span(Attention path);

// Whether documents are the segments of a path, instead of rows.
bool isolates_documents(Attention path);

// q, k [T, H, Dqk], v [T, H, Dv <= Dqk] -> [T, H, Dv]; softmax(q k^T scale) v, every token sees
// itself and what comes before it in its segment. `segments` are the rows for MaskDense (dense -inf
// mask through SDPA) and Packed, the documents for Varlen; the latter two run the varlen kernel
// with segments.cu, and take k and v of fewer heads as varlen_attention() does. Two are
// known bugs: NoCausalMask, where each token sees all of its document, and ShiftedBorders, where
// the varlen kernel has the documents' borders one token late. V is padded to Dqk, which the flash
// kernels need. Opens span "attention/<path>" and counts "kernel/<name>" of what ran.
at::Tensor causal_attention(const at::Tensor& q,
                            const at::Tensor& k,
                            const at::Tensor& v,
                            const Segments& segments,
                            Attention path,
                            double scale);

// Rotates interleaved pairs (x_{2i}, x_{2i+1}) by the segment's angles. x [T, H, D], cos and sin
// [T, 1, D/2] (Rotary of model/layout/positions.h). arXiv 2104.09864, eq. 34.
at::Tensor apply_rope(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin);

} // namespace assay
