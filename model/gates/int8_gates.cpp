// What eval_linears = int8 computes: a single linear, the model made of them, and its loss.
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>

#include <cmath>

#include "model/gates/gate_parts.h"
#include "model/gates/gates.h"
#include "model/layers/linear/int8_linear.h"
#include "model/layout/segments.h"

namespace assay {

namespace {

// A row's largest value, about 4 deviations of normal values, is 127 steps: rounding to the nearest
// is off by 4 / 127 / sqrt(12) = 0.9 % of a deviation, of both operands 1.3 %. The bound leaves
// room for larger values and for 16 bits. In the model errors add up over layers, and the loss
// moves by less than the logits.
constexpr double kInt8LinearBound = 2.5e-2, kInt8LogitsBound = 0.1, kInt8LossBound = 0.02;

constexpr std::int64_t kInt8Tokens = 512;

double linear_off(const TrainConfig& level) {
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(level.seed);
  const auto normal = [&](std::int64_t rows, std::int64_t columns) {
    return at::empty({rows, columns}).normal_(0, 1, generator).to(torch_device(level.device));
  };
  double off = 0;
  for (const auto& [in, out] :
       {std::pair(level.d_model, level.ffn_dim), std::pair(level.ffn_dim, level.d_model)}) {
    const at::Tensor x = normal(kInt8Tokens, in), weight = normal(out, in);
    Int8Weights weights;
    const at::Tensor expected = at::matmul(x.to(at::kDouble), weight.to(at::kDouble).t());
    off = std::max(off, relative_rms(int8_linear(x, weight, {}, weights), expected));
  }
  return off;
}

} // namespace

std::vector<GateResult> int8_gates(const TrainConfig& reference,
                                   const TrainConfig& level,
                                   const std::vector<Batch>& batches) {
  const at::NoGradGuard no_grad;
  const auto within = [](const char* name, double value, double bound, std::string detail) {
    return GateResult{name, value <= bound, value, bound, std::move(detail)};
  };
  const double linear = linear_off(level);
  Trainer full(reference), int8(level);
  const std::vector<Batch> for_full = prepared_for(reference, batches),
                           for_int8 = prepared_for(level, batches);
  const double logits = relative_rms(int8.logits(for_int8.front()), full.logits(for_full.front()));
  const double a = full.evaluate(for_full).nats_per_token,
               b = int8.evaluate(for_int8).nats_per_token;
  return {
      within("math/int8_linear",
             linear,
             kInt8LinearBound,
             fmt::format("relative RMS of linears between {} and {} on {} random tokens, against "
                         "fp64",
                         level.d_model,
                         level.ffn_dim,
                         kInt8Tokens)),
      within("math/int8_logits", logits, kInt8LogitsBound, "relative RMS against the reference"),
      within("math/evaluation_loss",
             std::abs(b - a) / a,
             kInt8LossBound,
             fmt::format("{:.6f} nats per token; the reference: {:.6f}", b, a))};
}

} // namespace assay
