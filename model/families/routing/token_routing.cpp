#include "model/families/routing/token_routing.h"

#include <algorithm>

#include "core/span.h"
#include "model/config/shapes/hydra_shape.h"
#include "model/families/init.h"
#include "model/families/routing/gathered.h"
#include "model/layers/autocast.h"

namespace assay {

namespace {

// Scores decide what is computed: in fp32 (fp64 of fp64) in every precision.
at::Tensor scores_of(const at::Tensor& rows, const at::Tensor& router) {
  return (rows.to(wide_type(rows)) * router).sum(-1);
}

// The tokens that are taken; one with the weight 0 where there is none, since kernels need a row.
at::Tensor taken_tokens(const at::Tensor& weights) {
  const at::Tensor taken = weights.detach().nonzero().squeeze(1);
  count("routing/taken", taken.size(0));
  return taken.size(0) > 0 ? taken : at::zeros({1}, taken.options());
}

const char* span_of(Routing form) {
  switch (form) {
  case Routing::Masked:
    return "routing/masked";
  case Routing::Compacted:
    return "routing/compacted";
  case Routing::Static:
    break;
  }
  return "routing/static";
}

// Rows whose weight is not 0, in their order, then the others, which are not computed: 0. What
// products leave behind the computed rows enters neither the result nor a gradient.
at::Tensor taken_first(const at::Tensor& rows,
                       const at::Tensor& weights,
                       const TokenRouting::FeedForwardOfRows& feed_forward) {
  const at::Tensor left = weights.detach().eq(0);
  const at::Tensor order = left.to(at::kByte).argsort(/*stable=*/true, 0, /*descending=*/false),
                   place = inverse_of(order);
  const at::Tensor unused = left.index_select(0, order).unsqueeze(1);
  const at::Tensor end = left.logical_not().sum(0, /*keepdim=*/true, at::kInt);
  const at::Tensor x = gathered(rows, order, place).masked_fill(unused, 0);
  return gathered(feed_forward(x, end).masked_fill(unused, 0), place, order);
}

} // namespace

at::Tensor top_of_segments(const at::Tensor& scores, double share, const Segments& segments) {
  const at::Tensor &place = segments.positions, &cu = segments.cu;
  const at::Tensor segment = place.eq(0).cumsum(0) - 1; // [T]
  const at::Tensor lengths = cu.diff().to(at::kLong).index_select(0, segment);
  // By segment, and in a segment by score: the order's entry p is of the segment of token p, and
  // has rank place[p] there.
  const at::Tensor by_score = scores.argsort(/*stable=*/true, 0, /*descending=*/true);
  const at::Tensor order =
      by_score.index_select(0, segment.index_select(0, by_score).argsort(true, 0, false));
  const at::Tensor most = lengths.to(at::kDouble).mul(share).sub(1e-9).ceil();
  return at::zeros(place.sizes(), place.options().dtype(at::kBool))
      .scatter(0, order, place.lt(most));
}

TokenRouting::TokenRouting(ParameterFactory& make,
                           const std::string& prefix,
                           std::size_t index,
                           const TrainConfig& config)
    : passes_(std::max<std::int64_t>(config.recursions, 1)),
      share_(has_mod(config, index) ? static_cast<double>(config.mod_percent) / 100 : 1),
      form_(config.routing) {
  const auto router = [&](const char* name) {
    const at::Tensor drawn = at::empty({config.d_model})
                                 .normal_(0, matrix_std(config.d_model, config), make.generator());
    return make.add(prefix + name, drawn, false);
  };
  if (passes_ > 1) {
    depth_router_ = router("depth_router");
    depth_bias_ = make.zeros(prefix + "depth_bias", {1});
  }
  if (share_ < 1) token_router_ = router("token_router");
}

at::Tensor TokenRouting::depths(const at::Tensor& normed) const {
  if (passes_ == 1) return {};
  const at::Tensor scores = scores_of(normed, depth_router_) + depth_bias_;
  return scores.sigmoid() * static_cast<double>(passes_ - 1);
}

at::Tensor TokenRouting::weights(const at::Tensor& normed,
                                 const at::Tensor& depths,
                                 std::int64_t pass,
                                 const Segments& segments) const {
  at::Tensor weight;
  if (pass > 0) weight = (depths - static_cast<double>(pass - 1)).clamp(0, 1);
  if (share_ < 1) {
    const at::Tensor scores = scores_of(normed, token_router_);
    const at::Tensor chosen = scores.sigmoid() * top_of_segments(scores.detach(), share_, segments);
    weight = weight.defined() ? weight * chosen : chosen;
  }
  return weight;
}

at::Tensor TokenRouting::run(const at::Tensor& normed,
                             const at::Tensor& depths,
                             std::int64_t pass,
                             const Segments& segments,
                             const FeedForwardOfRows& feed_forward) const {
  const Span span(span_of(form_));
  const std::int64_t tokens = normed.size(0);
  count("routing/offered", tokens);
  const at::Tensor weight = weights(normed, depths, pass, segments);
  if (!weight.defined()) {
    count("routing/taken", tokens);
    return feed_forward(normed, {});
  }
  const auto weighted = [](const at::Tensor& y, const at::Tensor& by) {
    return y * by.unsqueeze(1).to(y.scalar_type());
  };
  if (form_ == Routing::Static) return weighted(taken_first(normed, weight, feed_forward), weight);
  if (form_ == Routing::Masked) {
    count("routing/taken", tokens);
    return weighted(feed_forward(normed, {}), weight);
  }
  const at::Tensor taken = taken_tokens(weight),
                   end = at::full({1}, taken.size(0), taken.options().dtype(at::kInt));
  const at::Tensor y =
      weighted(feed_forward(normed.index_select(0, taken), end), weight.index_select(0, taken));
  return at::zeros({tokens, y.size(1)}, y.options()).index_copy(0, taken, y);
}

} // namespace assay
