// The gates that judge a function: isolation, causality, packed against alone, delta rule against
// its recurrence.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/result.h"
#include "model/gates/gate_parts.h"
#include "model/gates/gates.h"
#include "model/layers/delta_rule/gated_delta_rule.h"
#include "model/layout/segments.h"

namespace assay {

namespace {

constexpr double kHalfRuleBound = 5e-3; // of the delta rule's kernels, as for FLA's
constexpr std::size_t kMaxProbes = 16;  // forwards a gate makes at most

Batch with_tokens(const Batch& batch, const at::Tensor& tokens) {
  Batch changed = batch;
  changed.tokens = tokens;
  return changed;
}

// Largest difference, 0 where bit-equal; NaN counts as infinite.
double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  if (a.numel() == 0 || at::equal(a, b)) return 0;
  const double value = (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
  return std::isnan(value) ? std::numeric_limits<double>::infinity()
                           : std::max(value, std::numeric_limits<double>::min());
}

std::size_t probe_stride(std::size_t count) {
  return (count + kMaxProbes - 1) / kMaxProbes;
}

} // namespace

double relative_rms(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.detach().to(at::kDouble), y = b.detach().to(at::kDouble);
  const double norm = y.norm().item<double>();
  const double value = (x - y).norm().item<double>() / (norm > 0 ? norm : 1.0);
  return std::isnan(value) ? std::numeric_limits<double>::infinity() : value;
}

GateResult isolation_gate(const LogitsFunction& logits,
                          const Batch& batch,
                          const Segments& segments,
                          std::int64_t vocab) {
  GateResult gate{"isolation/documents", true, 0, 0, ""};
  const at::Tensor before = logits(batch);
  const std::size_t count = segments.cu_host.size() - 1, stride = probe_stride(count);
  std::size_t probes = 0;
  for (std::size_t i = 0; i < count; i += stride, ++probes) {
    const std::int64_t begin = segments.cu_host[i], end = segments.cu_host[i + 1];
    at::Tensor tokens = batch.tokens.clone();
    at::Tensor document = tokens.view(-1).narrow(0, begin, end - begin);
    document.copy_((document + 1).remainder(vocab));
    const at::Tensor after = logits(with_tokens(batch, tokens));
    const double difference =
        std::max(largest_difference(after.narrow(0, 0, begin), before.narrow(0, 0, begin)),
                 largest_difference(after.narrow(0, end, after.size(0) - end),
                                    before.narrow(0, end, before.size(0) - end)));
    if (difference > gate.value && gate.passed)
      gate.detail = fmt::format(
          "changing document {} (tokens {} to {}) changed outputs of others", i, begin, end);
    gate.value = std::max(gate.value, difference);
    gate.passed = gate.value == 0;
  }
  if (count < 2) {
    gate.passed = false;
    gate.detail =
        "the batch has a single document, so nothing was proved; use more or shorter documents";
  } else if (gate.passed) {
    gate.detail = fmt::format(
        "{} of {} documents changed in turn; all other outputs bit-equal", probes, count);
  }
  return gate;
}

GateResult causality_gate(const LogitsFunction& logits, const Batch& batch, std::int64_t vocab) {
  GateResult gate{"causality", true, 0, 0, ""};
  const at::Tensor before = logits(batch);
  const std::int64_t rows = batch.tokens.size(0), length = batch.tokens.size(1);
  const std::int64_t stride =
      std::max<std::int64_t>(1, length / static_cast<std::int64_t>(kMaxProbes));
  std::int64_t probes = 0, blind = 0;
  for (std::int64_t t = stride - 1; t < length; t += stride, ++probes) {
    at::Tensor tokens = batch.tokens.clone();
    at::Tensor column = tokens.select(1, t);
    column.copy_((column + 1).remainder(vocab));
    const at::Tensor after = logits(with_tokens(batch, tokens)).view({rows, length, -1});
    const at::Tensor reference = before.view({rows, length, -1});
    const double difference = largest_difference(after.narrow(1, 0, t), reference.narrow(1, 0, t));
    if (difference > 0 && gate.value == 0)
      gate.detail = fmt::format("changing token {} changed earlier outputs", t);
    gate.value = std::max(gate.value, difference);
    if (at::equal(after.select(1, t), reference.select(1, t))) ++blind;
  }
  gate.passed = gate.value == 0 && blind == 0;
  if (blind > 0 && gate.value == 0)
    gate.detail =
        fmt::format("{} of {} changed tokens did not change their own output", blind, probes);
  if (gate.passed)
    gate.detail =
        fmt::format("{} positions changed in turn; all earlier outputs bit-equal", probes);
  return gate;
}

GateResult per_document_gate(const LogitsFunction& logits,
                             const Batch& batch,
                             const TrainConfig& config,
                             const LogitsFunction& exact) {
  const at::Tensor packed = logits(batch);
  std::vector<at::Tensor> alone;
  const std::vector<std::int32_t>& cu = batch.documents.cu_host;
  for (std::size_t i = 1; i < cu.size(); ++i) {
    const auto part = [&](const at::Tensor& x) {
      return x.view(-1).narrow(0, cu[i - 1], cu[i] - cu[i - 1]).unsqueeze(0).to(at::kCPU);
    };
    Batch document = make_batch(part(batch.tokens), part(batch.targets), {});
    prepare(document, config);
    alone.push_back(logits(document));
  }
  GateResult gate{"math/per_document",
                  false,
                  relative_rms(packed, at::cat(alone)),
                  config.precision == Precision::Fp32 ? kFp32Bound : kHalfBound,
                  ""};
  gate.detail = fmt::format(
      "{} documents packed against one forward each, relative RMS of the logits", cu.size() - 1);
  if (gate.value > gate.bound && exact && config.precision != Precision::Fp32) {
    const double rounding = relative_rms(packed, exact(batch));
    gate.bound = std::max(gate.bound, rounding);
    gate.detail += fmt::format("; from fp32 they are {:.2e} off", rounding);
  }
  gate.passed = gate.value <= gate.bound;
  return gate;
}

GateResult
delta_rule_gate(const DeltaFunction& form, const Batch& batch, const TrainConfig& config) {
  const at::NoGradGuard no_grad;
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(config.seed);
  const std::int64_t tokens = batch.tokens.numel(), heads = config.heads, width = config.head_dim;
  const at::Device device = torch_device(config.device);
  const auto normal = [&](at::IntArrayRef shape) {
    return at::empty(shape).normal_(0, 1, generator).to(device);
  };
  const at::Tensor q = normal({tokens, heads, width}), k = normal({tokens, heads, width});
  // The kernels take 16-bit inputs: both sides get them rounded, so that the bound is of the rule.
  const bool half = device.is_cuda() && config.delta_form == DeltaForm::Fused;
  const auto rounded = [&](const at::Tensor& x) {
    return half ? x.to(at::kBFloat16).to(at::kFloat) : x;
  };
  const at::Tensor query = rounded(q / q.norm(2, {2}, true)),
                   key = rounded(k / k.norm(2, {2}, true));
  const at::Tensor value = rounded(normal({tokens, heads, width}));
  const at::Tensor g = -at::softplus(normal({tokens, heads})),
                   beta = normal({tokens, heads}).sigmoid();
  const at::Tensor expected = gated_delta_rule_naive(query, key, value, g, beta, batch.documents);
  const at::Tensor actual = form(query, key, value, g, beta, batch.documents);
  GateResult gate{
      "math/delta_rule",
      false,
      relative_rms(actual, expected),
      half ? kHalfRuleBound : kFp32Bound,
      fmt::format("the level's form against the recurrence on random inputs over the batch's "
                  "documents, {}",
                  half ? "bf16" : "fp32")};
  gate.passed = gate.value <= gate.bound;
  return gate;
}

} // namespace assay
