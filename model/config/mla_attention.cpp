#include "model/config/mla_attention.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace assay {

namespace {

using Widths = std::vector<std::pair<std::string, std::int64_t>>;

constexpr std::int64_t kCudnnWidth = 128; // widest head of its backward pass

Result<bool> check_cudnn(const TrainConfig& c, const Widths& widths) {
  if (c.precision == Precision::Fp32)
    return fail("mla_attention = cudnn needs precision = bf16, fp16 or fp8, not fp32: set one of "
                "them, or take flash_padded, efficient or math");
  const auto fits = [](const auto& of) { return of.second % 8 == 0 && of.second <= kCudnnWidth; };
  if (std::ranges::all_of(widths, fits)) return true;
  std::vector<std::string> keys;
  std::vector<std::int64_t> values;
  for (const auto& [key, value] : widths) keys.push_back(key), values.push_back(value);
  return fail("mla_attention = cudnn needs {} in multiples of 8 up to {}, not {}: set others, or "
              "take flash_padded, efficient or math",
              fmt::join(keys, " and "),
              kCudnnWidth,
              fmt::join(values, " and "));
}

} // namespace

Result<bool> check_mla_attention(const TrainConfig& c, const Widths& widths) {
  if (c.mla_attention == MlaAttention::FlashPadded) return true;
  if (c.attention == Attention::MaskDense)
    return fail("key 'mla_attention' must be flash_padded with attention = mask_dense, whose mask "
                "the other choices do not take: set attention to packed or varlen");
  if (c.mla_attention == MlaAttention::Math) return true;
  const bool cudnn = c.mla_attention == MlaAttention::Cudnn;
  if (c.device != Device::Cuda)
    return fail("mla_attention = {} needs device = cuda: take flash_padded or math on a CPU "
                "(`levels` of a cell)",
                cudnn ? "cudnn" : "efficient");
  return cudnn ? check_cudnn(c, widths) : true;
}

} // namespace assay
