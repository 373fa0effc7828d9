#include "model/config/mla_attention.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace assay {

namespace {

// Keys that give the width of a head and, with a rotary part, that of its keys.
std::vector<std::pair<std::string, std::int64_t>> widths_of(const TrainConfig& c) {
  if (c.rope_dim == 0) return {{"head_dim", c.head_dim}};
  return {{"head_dim", c.head_dim}, {"head_dim + rope_dim", c.head_dim + c.rope_dim}};
}

constexpr std::int64_t kCudnnWidth = 128; // widest head of its backward pass

bool fits_cudnn_widths(const TrainConfig& c) {
  return std::ranges::all_of(
      widths_of(c), [](const auto& of) { return of.second % 8 == 0 && of.second <= kCudnnWidth; });
}

Result<bool> check_cudnn(const TrainConfig& c) {
  if (c.precision == Precision::Fp32)
    return fail("mla_attention = cudnn needs precision = bf16, fp16 or fp8, not fp32: set one of "
                "them, or take flash_padded, efficient or math");
  if (fits_cudnn_widths(c)) return true;
  std::vector<std::string> keys;
  std::vector<std::int64_t> values;
  for (const auto& [key, value] : widths_of(c)) keys.push_back(key), values.push_back(value);
  return fail("mla_attention = cudnn needs {} in multiples of 8 up to {}, not {}: set others, or "
              "take flash_padded, efficient or math",
              fmt::join(keys, " and "),
              kCudnnWidth,
              fmt::join(values, " and "));
}

} // namespace

bool packs_segments(const TrainConfig& c) {
  return c.attention == Attention::Packed || c.attention == Attention::Varlen;
}

bool fits_cudnn(const TrainConfig& c) {
  return c.precision != Precision::Fp32 && fits_cudnn_widths(c);
}

Result<bool> check_mla_attention(const TrainConfig& c) {
  if (c.mla_attention == MlaAttention::FlashPadded) return true;
  if (!packs_segments(c))
    return fail("key 'mla_attention' must be flash_padded with attention = {}, which the other "
                "choices do not compute: set attention to packed or varlen",
                c.attention == Attention::MaskDense      ? "mask_dense"
                : c.attention == Attention::NoCausalMask ? "no_causal_mask"
                                                         : "shifted_borders");
  if (c.mla_attention == MlaAttention::Math) return true;
  const bool cudnn = c.mla_attention == MlaAttention::Cudnn;
  if (c.device != Device::Cuda)
    return fail("mla_attention = {} needs device = cuda: take flash_padded or math on a CPU "
                "(`levels` of a cell)",
                cudnn ? "cudnn" : "efficient");
  return cudnn ? check_cudnn(c) : true;
}

} // namespace assay
