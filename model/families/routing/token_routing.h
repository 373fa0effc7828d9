// Which tokens a layer's feed-forward computes, and with which weight: mixture of recursions (arXiv
// 2507.10524, token choice) and mixture of depths (arXiv 2404.02258). Equations: docs/hydra.md.
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "model/config/train_config.h"
#include "model/families/family.h"

namespace assay {

class TokenRouting {
public:
  TokenRouting() = default; // one pass that takes all tokens
  // Of layer `index`; its parameters come after the layer's others.
  TokenRouting(ParameterFactory& make,
               const std::string& prefix,
               std::size_t index,
               const TrainConfig& config);

  std::int64_t passes() const { return passes_; }
  bool chooses() const { return passes_ > 1 || share_ < 1; }

  // How deep a token goes, wide [T] in (0, passes - 1), from the first pass's normed rows [T, D];
  // undefined with one pass.
  at::Tensor depths(const at::Tensor& normed) const;

  // What a feed-forward [n, D] -> [n, D] makes of rows: of all of them, or of the first end[0]
  // alone, where `end`, int32 [1] on their device, is defined; what it returns for the others is
  // not used.
  using FeedForwardOfRows =
      std::function<at::Tensor(const at::Tensor& rows, const at::Tensor& end)>;

  // What it makes of the rows that pass number `pass` takes, times their weights; 0 in the others:
  // [T, D]. Counts tokens, "routing/offered" and where the host knows it "routing/taken".
  at::Tensor run(const at::Tensor& normed,
                 const at::Tensor& depths,
                 std::int64_t pass,
                 const Segments& segments,
                 const FeedForwardOfRows& feed_forward) const;

private:
  at::Tensor weights(const at::Tensor& normed,
                     const at::Tensor& depths,
                     std::int64_t pass,
                     const Segments& segments) const;

  std::int64_t passes_ = 1;
  double share_ = 1; // of a document's tokens
  Routing form_ = Routing::Masked;
  at::Tensor depth_router_, depth_bias_; // [d_model], [1]
  at::Tensor token_router_;              // [d_model]
};

// Bool [T]: the ceil(share n) tokens with the largest scores [T] of each segment of n tokens; of
// equal scores the earlier one. Without a wait for the device.
at::Tensor top_of_segments(const at::Tensor& scores, double share, const Segments& segments);

} // namespace assay
