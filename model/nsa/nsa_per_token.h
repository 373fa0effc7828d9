// The three branches of native sparse attention token by token (`nsa_form = per_token`), as a loop
// of prefill is written first: the host takes one query after the other, gathers its keys and
// values, and forms one softmax. Functions, shapes and types of nsa.h, whose chunks of queries and
// kernels they replace. The host reads the borders of keys back: a wait for the device each.
#pragma once

#include <ATen/ATen.h>

#include "model/nsa/nsa.h"

namespace assay {

at::Tensor nsa_compressed_per_token(const at::Tensor& q,
                                    const at::Tensor& k_compressed,
                                    const at::Tensor& v_compressed,
                                    const NsaLayoutPtr& layout,
                                    double scale);

// blocks int64 [T, G, n] as of nsa_select_blocks.
at::Tensor nsa_selected_per_token(const at::Tensor& q,
                                  const at::Tensor& k,
                                  const at::Tensor& v,
                                  const at::Tensor& blocks,
                                  const NsaLayoutPtr& layout,
                                  double scale);

at::Tensor nsa_window_per_token(const at::Tensor& q,
                                const at::Tensor& k,
                                const at::Tensor& v,
                                const NsaLayoutPtr& layout,
                                double scale);

} // namespace assay
