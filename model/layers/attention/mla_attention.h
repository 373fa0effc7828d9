// Causal attention by what the `mla_attention` optimization chooses: of latent attention, whose
// values are narrower than its keys, and of heads of one width.
#pragma once

#include <ATen/ATen.h>

#include "model/config/train_config.h"
#include "model/layout/batch.h"

namespace assay {

// As causal_attention (attention.h). Opens span "mla_attention/<what ran>" and counts
// "kernel/<name>". Cudnn takes at most 256 documents: a batch of more runs FlashPadded, shows its
// span and counts "fallback/mla_attention" (core/fallback.h). What a choice needs is checked in
// model/config/mla_attention.h. `row_length`: tokens of a row of the training's batches.
at::Tensor mla_attention(const at::Tensor& q,
                         const at::Tensor& k,
                         const at::Tensor& v,
                         const Segments& segments,
                         Attention path,
                         double scale,
                         MlaAttention choice,
                         std::int64_t row_length);

// The same of qkv [T, 3, H, d]: queries, keys and values, of which Cudnn copies none.
at::Tensor joined_attention(const at::Tensor& qkv,
                            const Segments& segments,
                            Attention path,
                            double scale,
                            MlaAttention choice,
                            std::int64_t row_length);

} // namespace assay
