// What `precision = fp8` computes beside fp32: single linears, and the model made of them.
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/span.h"
#include "model/gates/gate_parts.h"
#include "model/gates/gates.h"
#include "model/layers/fp8/fp8_linear.h"
#include "model/layout/segments.h"

namespace assay {

namespace {

// Half a step of e4m3's 3 mantissa bits is at most 1/16 of a value, of e5m2's 2 bits 1/8: as
// relative RMS of normal values 2.6 % and 5.2 %. Operands are rounded independently, so a product's
// error is the root of the sum of their squares: 3.7 % of y, 5.8 % of dx and dW. The bounds leave
// bf16's rounding of the result and 30 % of chance. A scale that is twice too large or too small is
// off by 50 % or more where it is not undone, and by saturation where it is.
constexpr double kLinearBound = 5e-2, kLinearGradientBound = 8e-2;
// Of the whole model, whose errors grow with its depth as those of bf16 do: e5m2 has 2 bits of
// mantissa where bf16 has 7, so FP8 may be off by 32 times as much. Measured: 10 to 13 times, on
// CPUs. Half of the size of what is compared is never a rounding.
constexpr double kTimesBf16 = 32, kLeastModelBound = 0.1, kMostModelBound = 0.5;

constexpr std::int64_t kTokens = 512;

// A linear whose scales come from other values of the same distribution.
at::Tensor delayed_linear(const at::Tensor& x, const at::Tensor& weight, at::Generator generator) {
  Fp8Histories history(std::vector<at::Tensor>{weight});
  const auto other = [&](const at::Tensor& like) {
    return at::empty(like.sizes()).normal_(0, 1, generator).to(like.options());
  };
  const auto linear = [&](const at::Tensor& a) {
    Fp8Casts casts(&history);
    const Fp8Guard guard(&casts);
    return apply_linear(a, weight);
  };
  const at::Tensor y = linear(other(x));
  y.backward(other(y));
  weight.mutable_grad().reset();
  history.roll();
  return linear(x);
}

// Its scales then come from a step with the batch; all else is as before.
void see_a_step(Trainer& trainer, const Batch& batch) {
  NamedTensors before;
  for (const auto& [name, tensor] : trainer.state_tensors())
    if (!name.starts_with("fp8.")) before.emplace_back(name, tensor.clone());
  (void)trainer.step({batch});
  trainer.load_state_tensors(before);
  trainer.set_step_index(0);
}

GateResult within(std::string name, double value, double bound, std::string detail) {
  return {std::move(name), value <= bound, value, bound, std::move(detail)};
}

} // namespace

std::vector<GateResult> fp8_linear_gates(const LinearFunction& linear, const TrainConfig& config) {
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(config.seed);
  const at::Device device = torch_device(config.device);
  const auto normal = [&](std::int64_t rows, std::int64_t columns, at::ScalarType type) {
    return at::empty({rows, columns}).normal_(0, 1, generator).to(device).to(type);
  };
  double y_off = 0, gradients_off = 0;
  for (const auto& [in, out] :
       {std::pair(config.d_model, config.ffn_dim), std::pair(config.ffn_dim, config.d_model)}) {
    const at::Tensor x = normal(kTokens, in, at::kBFloat16).requires_grad_(),
                     weight = normal(out, in, at::kFloat).requires_grad_(),
                     dy = normal(kTokens, out, at::kBFloat16);
    const at::Tensor y = linear(x, weight);
    y.backward(dy.to(y.scalar_type()));
    const at::NoGradGuard no_grad;
    const auto wide = [](const at::Tensor& a) { return a.detach().to(at::kDouble); };
    y_off = std::max(y_off, relative_rms(y, at::matmul(wide(x), wide(weight).t())));
    gradients_off = std::max({gradients_off,
                              relative_rms(x.grad(), at::matmul(wide(dy), wide(weight))),
                              relative_rms(weight.grad(), at::matmul(wide(dy).t(), wide(x)))});
  }
  const std::string detail =
      fmt::format("relative RMS of linears between {} and {} on {} random tokens, against fp64",
                  config.d_model,
                  config.ffn_dim,
                  kTokens);
  return {within("math/fp8_linear", y_off, kLinearBound, detail),
          within("math/fp8_linear_gradients", gradients_off, kLinearGradientBound, detail)};
}

std::vector<GateResult>
fp8_gates(const TrainConfig& reference, const TrainConfig& level, const Batch& batch) {
  const bool delayed = level.fp8_scaling == Fp8Scaling::Delayed;
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(level.seed + 1);
  std::vector<GateResult> gates = fp8_linear_gates(
      [&](const at::Tensor& x, const at::Tensor& weight) {
        if (delayed) return delayed_linear(x, weight, generator);
        Fp8Casts casts;
        const Fp8Guard guard(&casts);
        return apply_linear(x, weight);
      },
      level);
  const TrainConfig true_config = in_fp32(reference);
  Trainer bf16(reference), fp8(level), truth(true_config);
  const Batch for_bf16 = prepared_for(reference, {batch}).front(),
              for_fp8 = prepared_for(level, {batch}).front(),
              for_truth = prepared_for(true_config, {batch}).front();
  if (delayed) see_a_step(fp8, for_fp8);
  const auto add = [&](const char* name,
                       const at::Tensor& x,
                       const at::Tensor& y,
                       const at::Tensor& z) {
    const double own = relative_rms(x, z);
    gates.push_back(within(name,
                           relative_rms(y, z),
                           std::clamp(kTimesBf16 * own, kLeastModelBound, kMostModelBound),
                           fmt::format("relative RMS against fp32; the reference: {:.2e}", own)));
  };
  add("math/fp8_logits",
      bf16.logits(for_bf16, reference.attention),
      fp8.logits(for_fp8, level.attention),
      truth.logits(for_truth, reference.attention));
  add("math/fp8_logits_gradients",
      flat(bf16.gradients(for_bf16)),
      flat(fp8.gradients(for_fp8)),
      flat(truth.gradients(for_truth)));
  return gates;
}

} // namespace assay
