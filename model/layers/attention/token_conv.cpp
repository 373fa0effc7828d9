#include "model/layers/attention/token_conv.h"

#include <vector>

#include "core/span.h"

namespace assay {

at::Tensor tokens_before(const at::Tensor& x, std::int64_t by, const at::Tensor& positions) {
  const std::int64_t tokens = x.size(0);
  if (by >= tokens) return at::zeros_like(x);
  std::vector<std::int64_t> first = x.sizes().vec(), of_token(first.size(), 1);
  first[0] = by, of_token[0] = tokens;
  return at::cat({at::zeros(first, x.options()), x.narrow(0, 0, tokens - by)})
      .masked_fill(positions.lt(by).view(of_token), 0);
}

at::Tensor token_conv(const at::Tensor& x,
                      const at::Tensor& weight,
                      const at::Tensor& positions,
                      QkConv form) {
  const std::int64_t width = x.size(2), taps = weight.size(1) / width;
  std::vector<at::Tensor> read{x};
  for (std::int64_t j = 1; j < taps; ++j) read.push_back(tokens_before(x, j, positions));
  const auto of_heads = [](const at::Tensor& one, const at::Tensor& matrices) {
    return at::matmul(one.transpose(0, 1), matrices); // [H, T, d']
  };
  if (form == QkConv::Joined) {
    count("qk_conv/joined");
    return of_heads(at::cat(read, 2), weight).transpose(0, 1);
  }
  count("qk_conv/taps");
  at::Tensor sum;
  for (std::int64_t j = 0; j < taps; ++j) {
    const at::Tensor product =
        of_heads(read[static_cast<std::size_t>(j)], weight.narrow(1, j * width, width));
    sum = sum.defined() ? sum + product : product;
  }
  return sum.transpose(0, 1);
}

} // namespace assay
