// Causal convolutions over tokens that mix all channels of a head, and values of the token before.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "model/config/train_config.h"

namespace assay {

// x [T, ...] of the token `by` tokens before, 0 where that one is in another segment. positions:
// int64 [T], of tokens in their segments (Segments::positions).
at::Tensor tokens_before(const at::Tensor& x, std::int64_t by, const at::Tensor& positions);

// y_t = sum_j x_{t-j} W_j over the j < taps with t-j in the segment of t, a head alone. x [T, H,
// d], weight [H, taps*d, d']: W_0, then W_1, … below each other; gives [T, H, d']. Counts
// "qk_conv/taps" or "qk_conv/joined".
at::Tensor
token_conv(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& positions, QkConv form);

} // namespace assay
