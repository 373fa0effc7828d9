// The recurrences of ssd.h and rwkv6.h, a token of every segment at a time.
#include <algorithm>
#include <numeric>
#include <vector>

#include "core/result.h"
#include "core/span.h"
#include "model/layers/autocast.h"
#include "model/layers/scan/rwkv6.h"
#include "model/layers/scan/ssd.h"

namespace assay {

namespace {

// The first token of every segment, then the second ones, and so on. Segments are sorted by
// length, longest first: a step goes on with the states of the first ones.
struct TokenSteps {
  std::vector<std::int64_t> sizes; // segments that have a token in the step
  at::Tensor tokens;               // int64 [T]: the token at each place of this order
  at::Tensor places;               // int64 [T]: the place of each token

  at::Tensor ordered(const at::Tensor& x) const { return x.index_select(0, tokens); }
};

TokenSteps steps_of(const std::vector<std::int32_t>& cu, at::Device device) {
  std::vector<std::size_t> longest_first(cu.size() - 1);
  std::iota(longest_first.begin(), longest_first.end(), 0);
  const auto length = [&](std::size_t segment) { return cu[segment + 1] - cu[segment]; };
  std::ranges::stable_sort(longest_first, std::ranges::greater{}, length);
  TokenSteps steps;
  std::vector<std::int64_t> tokens, places(static_cast<std::size_t>(cu.back()));
  for (std::int32_t t = 0; tokens.size() < places.size(); ++t) {
    const std::size_t before = tokens.size();
    for (const std::size_t segment : longest_first) {
      if (length(segment) <= t) break;
      const std::int32_t token = cu[segment] + t;
      places[static_cast<std::size_t>(token)] = std::ssize(tokens);
      tokens.push_back(token);
    }
    steps.sizes.push_back(static_cast<std::int64_t>(tokens.size() - before));
  }
  steps.tokens = at::tensor(tokens, at::kLong).to(device);
  steps.places = at::tensor(places, at::kLong).to(device);
  return steps;
}

// Outputs of all tokens: of `step(first, count, states)` for each step, whose tokens are
// [first, first + count) of the order, and whose states [count, H, ...] it replaces.
template <class Step>
at::Tensor run_steps(const TokenSteps& steps, at::Tensor& states, const Step& step) {
  std::vector<at::Tensor> outputs;
  std::int64_t first = 0;
  for (const std::int64_t count : steps.sizes) {
    states = states.narrow(0, 0, count);
    outputs.push_back(step(first, count, states));
    first += count;
  }
  return at::cat(outputs).index_select(0, steps.places);
}

at::Tensor outer_product(const at::Tensor& rows, const at::Tensor& columns) {
  return rows.unsqueeze(-1) * columns.unsqueeze(-2);
}

at::Tensor read_out(const at::Tensor& reads, const at::Tensor& states) {
  return at::matmul(reads.unsqueeze(-2), states).squeeze(-2);
}

// `states` [N, H, N, P] before and after all tokens of the N segments.
at::Tensor ssd_steps(const at::Tensor& x,
                     const at::Tensor& a,
                     const at::Tensor& b,
                     const at::Tensor& c,
                     const TokenSteps& steps,
                     at::Tensor& states) {
  const Span span("scan/loop");
  const AutocastGuard full_precision(x.device().type(), at::kFloat);
  const at::ScalarType type = wide_type(x);
  const std::int64_t heads = x.size(1), shared = heads / b.size(1);
  const at::Tensor input = steps.ordered(x.to(type)), decay = steps.ordered(a.to(type).exp()),
                   write = steps.ordered(b.to(type).repeat_interleave(shared, 1)),
                   read = steps.ordered(c.to(type).repeat_interleave(shared, 1));
  const auto step = [&](std::int64_t first, std::int64_t count, at::Tensor& now) {
    const auto of = [&](const at::Tensor& all) { return all.narrow(0, first, count); };
    now = now * of(decay).view({count, heads, 1, 1}) + outer_product(of(write), of(input));
    return read_out(of(read), now);
  };
  return run_steps(steps, states, step).to(x.scalar_type());
}

// `states` [N, H, K, V] before and after all tokens of the N segments.
at::Tensor rwkv6_steps(const at::Tensor& r,
                       const at::Tensor& k,
                       const at::Tensor& v,
                       const at::Tensor& w,
                       const at::Tensor& u,
                       const TokenSteps& steps,
                       at::Tensor& states) {
  const Span span("scan/loop");
  const AutocastGuard full_precision(r.device().type(), at::kFloat);
  const at::ScalarType type = wide_type(r);
  const at::Tensor read = steps.ordered(r.to(type)), key = steps.ordered(k.to(type)),
                   value = steps.ordered(v.to(type)), decay = steps.ordered(w.to(type).exp()),
                   bonus = u.to(type).unsqueeze(2);
  const auto step = [&](std::int64_t first, std::int64_t count, at::Tensor& now) {
    const auto of = [&](const at::Tensor& all) { return all.narrow(0, first, count); };
    const at::Tensor write = outer_product(of(key), of(value));
    const at::Tensor output = read_out(of(read), now + bonus * write);
    now = now * of(decay).unsqueeze(3) + write;
    return output;
  };
  return run_steps(steps, states, step).to(v.scalar_type());
}

at::Tensor zero_states(std::int64_t segments,
                       std::int64_t heads,
                       std::int64_t keys,
                       const at::Tensor& values) { // [T, H, V]
  return at::zeros({segments, heads, keys, values.size(2)},
                   values.options().dtype(wide_type(values)));
}

TokenSteps steps_of_piece(const at::Tensor& values) {
  return steps_of({0, static_cast<std::int32_t>(values.size(0))}, values.device());
}

} // namespace

at::Tensor ssd_loop(const at::Tensor& x,
                    const at::Tensor& a,
                    const at::Tensor& b,
                    const at::Tensor& c,
                    const Segments& segments) {
  at::Tensor states = zero_states(segments.count(), x.size(1), b.size(2), x);
  return ssd_steps(x, a, b, c, steps_of(segments.cu_host, x.device()), states);
}

at::Tensor ssd_piece(const at::Tensor& x,
                     const at::Tensor& a,
                     const at::Tensor& b,
                     const at::Tensor& c,
                     at::Tensor& state) {
  if (!state.defined()) state = zero_states(1, x.size(1), b.size(2), x);
  return ssd_steps(x, a, b, c, steps_of_piece(x), state);
}

at::Tensor rwkv6_loop(const at::Tensor& r,
                      const at::Tensor& k,
                      const at::Tensor& v,
                      const at::Tensor& w,
                      const at::Tensor& u,
                      const Segments& segments) {
  at::Tensor states = zero_states(segments.count(), r.size(1), r.size(2), v);
  return rwkv6_steps(r, k, v, w, u, steps_of(segments.cu_host, r.device()), states);
}

at::Tensor rwkv6_piece(const at::Tensor& r,
                       const at::Tensor& k,
                       const at::Tensor& v,
                       const at::Tensor& w,
                       const at::Tensor& u,
                       at::Tensor& state) {
  if (!state.defined()) state = zero_states(1, r.size(1), r.size(2), v);
  return rwkv6_steps(r, k, v, w, u, steps_of_piece(r), state);
}

Ssd ssd_of(ScanForm form) {
  switch (form) {
  case ScanForm::Loop:
    return ssd_loop;
  case ScanForm::Chunked:
    return ssd_chunked;
  case ScanForm::Fused:
    return ssd_fused;
  }
  internal_error("no such form of a scan");
}

Rwkv6 rwkv6_of(ScanForm form) {
  switch (form) {
  case ScanForm::Loop:
    return rwkv6_loop;
  case ScanForm::Chunked:
    return rwkv6_chunked;
  case ScanForm::Fused:
    return rwkv6_fused;
  }
  internal_error("no such form of a scan");
}

} // namespace assay
