#include "model/layout/positions.h"

#include <cmath>
#include <limits>

namespace assay {

namespace {

constexpr double kRopeBase = 10000.0; // RoFormer, arXiv 2104.09864, section 3.2.2

} // namespace

at::Tensor segment_positions(const std::vector<std::int32_t>& cu) {
  std::vector<std::int64_t> positions;
  for (std::size_t i = 1; i < cu.size(); ++i)
    for (std::int64_t t = 0; t < cu[i] - cu[i - 1]; ++t) positions.push_back(t);
  return at::tensor(positions, at::TensorOptions().dtype(at::kLong));
}

Rotary make_rotary(const std::vector<std::int32_t>& cu, std::int64_t dim, at::Device device) {
  const std::int64_t pairs = dim / 2;
  const at::Tensor index = at::arange(pairs, at::TensorOptions().dtype(at::kDouble));
  const at::Tensor frequency = at::exp(index * (-std::log(kRopeBase) / static_cast<double>(pairs)));
  const at::Tensor angle =
      segment_positions(cu).to(at::kDouble).unsqueeze(1) * frequency.unsqueeze(0);
  const at::Tensor cos = angle.cos().to(at::kFloat).unsqueeze(1).to(device),
                   sin = angle.sin().to(at::kFloat).unsqueeze(1).to(device);
  return {cos, sin, at::complex(cos, sin)};
}

at::Tensor make_causal_mask(const std::vector<std::int32_t>& cu, at::Device device) {
  const std::int64_t length = cu[1] - cu[0];
  for (std::size_t i = 1; i < cu.size(); ++i)
    if (cu[i] - cu[i - 1] != length) return {};
  return at::full({length, length}, -std::numeric_limits<float>::infinity(), at::kFloat)
      .triu_(1)
      .to(device);
}

} // namespace assay
