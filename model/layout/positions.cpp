#include "model/layout/positions.h"

#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace assay {

namespace {

constexpr double kRopeBase = 10000.0; // RoFormer, arXiv 2104.09864, section 3.2.2
constexpr std::int64_t kLeastPlaces = 1024;

Rotary angles_of(std::int64_t places, std::int64_t dim, at::Device device) {
  const std::int64_t pairs = dim / 2;
  const auto numbers = [](std::int64_t count) {
    return at::arange(count, at::TensorOptions().dtype(at::kDouble));
  };
  const at::Tensor frequency =
      at::exp(numbers(pairs) * (-std::log(kRopeBase) / static_cast<double>(pairs)));
  const at::Tensor angle = numbers(places).unsqueeze(1) * frequency.unsqueeze(0);
  const at::Tensor cos = angle.cos().to(at::kFloat).unsqueeze(1).to(device),
                   sin = angle.sin().to(at::kFloat).unsqueeze(1).to(device);
  return {cos, sin, at::complex(cos, sin)};
}

// Angles of every place up to the longest segment that was seen: kept, since no batch changes them.
Rotary rotary_table(std::int64_t longest, std::int64_t dim, at::Device device) {
  static std::mutex mutex;
  static std::map<std::pair<std::int64_t, std::string>, Rotary> tables;
  const std::lock_guard lock(mutex);
  Rotary& table = tables[{dim, device.str()}];
  if (table.cos.defined() && table.cos.size(0) >= longest) return table;
  std::int64_t places = kLeastPlaces;
  while (places < longest) places *= 2;
  return table = angles_of(places, dim, device);
}

} // namespace

at::Tensor segment_positions(const Segments& segments) {
  const at::Tensor token = at::arange(segments.cu_host.back(), segments.cu.options());
  const at::Tensor segment =
      at::searchsorted(segments.cu, token, /*out_int32=*/true, /*right=*/true) - 1;
  return (token - segments.cu.index_select(0, segment)).to(at::kLong) + segments.first_position;
}

Rotary make_rotary(const Segments& segments, std::int64_t dim) {
  const Rotary table =
      rotary_table(segments.first_position + segments.max_len, dim, segments.cu.device());
  const at::Tensor places = segment_positions(segments);
  return {table.cos.index_select(0, places),
          table.sin.index_select(0, places),
          table.turn.index_select(0, places)};
}

at::Tensor make_causal_mask(const std::vector<std::int32_t>& cu, at::Device device) {
  const std::int64_t length = cu[1] - cu[0];
  for (std::size_t i = 1; i < cu.size(); ++i)
    if (cu[i] - cu[i - 1] != length) return {};
  const at::TensorOptions options = at::TensorOptions().dtype(at::kFloat).device(device);
  return at::full({length, length}, -std::numeric_limits<float>::infinity(), options).triu_(1);
}

} // namespace assay
