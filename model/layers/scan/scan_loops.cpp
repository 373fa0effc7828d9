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

TokenSteps steps_of(const Segments& segments) {
  const std::vector<std::int32_t>& cu = segments.cu_host;
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
      places[static_cast<std::size_t>(cu[segment] + t)] = std::ssize(tokens);
      tokens.push_back(cu[segment] + t);
    }
    steps.sizes.push_back(static_cast<std::int64_t>(tokens.size() - before));
  }
  steps.tokens = at::tensor(tokens, at::kLong).to(segments.cu.device());
  steps.places = at::tensor(places, at::kLong).to(segments.cu.device());
  return steps;
}

// Outputs of all tokens: of `step(first, count, states)` for each step, whose tokens are
// [first, first + count) of the order, and whose states [count, H, ...] it replaces.
template <class Step>
at::Tensor run_steps(const TokenSteps& steps, at::Tensor states, const Step& step) {
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

} // namespace

at::Tensor ssd_loop(const at::Tensor& x,
                    const at::Tensor& a,
                    const at::Tensor& b,
                    const at::Tensor& c,
                    const Segments& segments) {
  const Span span("scan/loop");
  const AutocastGuard full_precision(x.device().type(), at::kFloat);
  const at::ScalarType type = wide_type(x);
  const std::int64_t heads = x.size(1), shared = heads / b.size(1);
  const TokenSteps steps = steps_of(segments);
  const at::Tensor input = steps.ordered(x.to(type)), decay = steps.ordered(a.to(type).exp()),
                   write = steps.ordered(b.to(type).repeat_interleave(shared, 1)),
                   read = steps.ordered(c.to(type).repeat_interleave(shared, 1));
  const at::Tensor start =
      at::zeros({segments.count(), heads, b.size(2), x.size(2)}, input.options());
  return run_steps(steps,
                   start,
                   [&](std::int64_t first, std::int64_t count, at::Tensor& states) {
                     const auto now = [&](const at::Tensor& all) {
                       return all.narrow(0, first, count);
                     };
                     states = states * now(decay).view({count, heads, 1, 1}) +
                              outer_product(now(write), now(input));
                     return read_out(now(read), states);
                   })
      .to(x.scalar_type());
}

at::Tensor rwkv6_loop(const at::Tensor& r,
                      const at::Tensor& k,
                      const at::Tensor& v,
                      const at::Tensor& w,
                      const at::Tensor& u,
                      const Segments& segments) {
  const Span span("scan/loop");
  const AutocastGuard full_precision(r.device().type(), at::kFloat);
  const at::ScalarType type = wide_type(r);
  const TokenSteps steps = steps_of(segments);
  const at::Tensor read = steps.ordered(r.to(type)), key = steps.ordered(k.to(type)),
                   value = steps.ordered(v.to(type)), decay = steps.ordered(w.to(type).exp()),
                   bonus = u.to(type).unsqueeze(2);
  const at::Tensor start =
      at::zeros({segments.count(), r.size(1), r.size(2), v.size(2)}, read.options());
  return run_steps(steps,
                   start,
                   [&](std::int64_t first, std::int64_t count, at::Tensor& states) {
                     const auto now = [&](const at::Tensor& all) {
                       return all.narrow(0, first, count);
                     };
                     const at::Tensor write = outer_product(now(key), now(value));
                     const at::Tensor output = read_out(now(read), states + bonus * write);
                     states = states * now(decay).unsqueeze(3) + write;
                     return output;
                   })
      .to(v.scalar_type());
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
