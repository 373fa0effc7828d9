// Gates of the rows that need several ranks. Each compares what the ranks compute together with
// what one process computes on the batches of all of them.
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/result.h"
#include "model/ddp/gather_batches.h"
#include "model/ddp/process_group.h"
#include "model/gates/gate_parts.h"
#include "model/gates/gates.h"
#include "model/layout/segments.h"

namespace assay {

namespace {

constexpr std::size_t kPasses =
    3; // buckets are rebuilt after the first; a static graph applies then
constexpr double kGradientBound = 1e-6;    // another order of fp32 sums
constexpr double kEvaluationBound = 1e-12; // another order of fp64 sums
constexpr double kGateScale = 1024;        // of the loss, so that no 16-bit gradient overflows

double sum_over_ranks(double value, Device device, ProcessGroup& ranks) {
  at::Tensor sum =
      at::full({1}, value, at::TensorOptions().dtype(at::kDouble)).to(torch_device(device));
  ranks.all_reduce(sum, "gate/sum");
  return sum.item<double>();
}

// What rounding to the type on the way may change, as a share of the mean gradient's norm: one
// rounding each by the cast, the division and every addition, of values whose norm is the mean over
// ranks of their gradients' norms; and below fp16's normal range an absolute error of 2^-25.
double compression_bound(const TrainConfig& config,
                         const at::Tensor& own,
                         const at::Tensor& mean,
                         double scale,
                         ProcessGroup& ranks) {
  if (config.ddp_compress == DdpCompress::None) return kGradientBound;
  const double size = ranks.size(), norm = mean.norm().item<double>();
  const double norms = sum_over_ranks(own.norm().item<double>(), config.device, ranks) / size;
  const bool fp16 = config.ddp_compress == DdpCompress::Fp16;
  const double unit = std::ldexp(1.0, fp16 ? -11 : -8);
  const double tiny = fp16 ? std::ldexp(std::sqrt(static_cast<double>(mean.numel())), -25) : 0;
  return (size + 1) * (unit * norms + tiny / scale) / norm;
}

// Bit-equality with rank 0, over all ranks.
GateResult agreement(const at::Tensor& own, const char* what, Device device, ProcessGroup& ranks) {
  at::Tensor first = own.clone();
  ranks.broadcast(first, 0, "gate/agreement");
  const double differing = sum_over_ranks(at::equal(first, own) ? 0 : 1, device, ranks);
  return {"agreement/ranks",
          differing == 0,
          differing,
          0,
          fmt::format("ranks whose {} are not bit-equal to rank 0's", what)};
}

std::vector<GateResult> averaged_gradient_gates(TrainConfig level,
                                                const std::vector<Batch>& batches,
                                                const std::shared_ptr<ProcessGroup>& ranks) {
  level.init_scale = std::min(level.init_scale, kGateScale);
  TrainConfig single = level;
  single.ranks = 1;
  single.sharding = Sharding::None;
  Trainer together(level, ranks), alone(single);
  GateResult gate{"math/gradients", false, 0, std::numeric_limits<double>::infinity(), ""};
  double noise = 0;
  at::Tensor actual;
  for (std::size_t pass = 0; pass < kPasses; ++pass) {
    const std::vector<Batch> own = micro_batches(batches, level.accumulate, pass);
    const std::vector<Batch> all = gather_batches(own, level, *ranks);
    const at::Tensor expected = flat(alone.averaged_gradients(all));
    actual = flat(together.averaged_gradients(own));
    noise = std::max(noise, relative_rms(flat(alone.averaged_gradients(all)), expected));
    gate.value = std::max(gate.value, relative_rms(actual, expected));
    gate.bound = std::min(gate.bound,
                          compression_bound(level,
                                            flat(alone.averaged_gradients(own)),
                                            expected,
                                            alone.scaler().current_scale(),
                                            *ranks));
  }
  gate.bound = std::max(gate.bound, 2 * noise);
  gate.passed = gate.value <= gate.bound;
  gate.detail =
      fmt::format("relative RMS of {} passes of {} ranks against one process on all their "
                  "batches; that repeats itself within {:.1e}",
                  kPasses,
                  ranks->size(),
                  noise);
  return {gate, agreement(actual, "averaged gradients", level.device, *ranks)};
}

// Only the last rank's gradients overflow, in the second step: every rank must skip it and halve
// the same scale.
GateResult overflow_gate(TrainConfig level,
                         const std::vector<Batch>& batches,
                         const std::shared_ptr<ProcessGroup>& ranks) {
  level.grad_scaler = GradScaler::Dynamic;
  level.init_scale = std::min(level.init_scale, kGateScale);
  Trainer trainer(level, ranks);
  (void)trainer.step(micro_batches(batches, level.accumulate, 0));
  const double scale = trainer.scaler().current_scale();
  const std::int64_t skipped = trainer.skipped_steps();
  const at::Tensor& parameter = trainer.parameters().front().tensor;
  const bool overflows = ranks->rank() == ranks->size() - 1;
  const unsigned hook = parameter.register_hook(
      [overflows](const at::Tensor& gradient) { return overflows ? gradient / 0 : gradient; });
  (void)trainer.step(micro_batches(batches, level.accumulate, 1));
  parameter.remove_hook(hook);
  const bool right =
      trainer.skipped_steps() == skipped + 1 && trainer.scaler().current_scale() == scale / 2;
  const double wrong = sum_over_ranks(right ? 0 : 1, level.device, *ranks);
  return {"agreement/overflow",
          wrong == 0,
          wrong,
          0,
          fmt::format("ranks that did not skip the step and halve the scale when rank {} alone "
                      "overflowed",
                      ranks->size() - 1)};
}

// The collectives that each rank would issue, compared without issuing them.
GateResult same_collectives(Trainer& trainer,
                            const std::vector<Batch>& batches,
                            Device device,
                            ProcessGroup& ranks) {
  std::string own;
  {
    const ProcessGroup::Rehearsal rehearsal(ranks);
    (void)trainer.evaluate(batches);
    own = fmt::format("{}", fmt::join(rehearsal.fingerprints(), ", "));
  }
  GateResult gate{"agreement/collectives", true, 0, 0, ""};
  const std::string first = broadcast_text(ranks, own, 0, device);
  gate.detail = fmt::format("every rank issues: {}", first.empty() ? "nothing" : first);
  for (int rank = 1; rank < ranks.size(); ++rank) {
    const std::string other = broadcast_text(ranks, own, rank, device);
    if (other == first) continue;
    if (gate.passed)
      gate.detail =
          fmt::format("rank 0 would issue: {}; rank {}: {}; they would wait for each other "
                      "for ever",
                      first.empty() ? "nothing" : first,
                      rank,
                      other.empty() ? "nothing" : other);
    gate.passed = false;
    ++gate.value;
  }
  return gate;
}

// The loss of all batches against one process; with validation_ranks = none the other ranks must
// know nothing of it.
GateResult evaluation_gate(const EvalResult& actual,
                           const EvalResult& expected,
                           double repeated, // nats per token
                           bool knows) {
  GateResult gate{"math/evaluation", false, 0, 0, ""};
  if (!knows) {
    gate.passed = !actual.known() && actual.bytes == 0;
    gate.value = static_cast<double>(actual.tokens);
    gate.detail = "tokens of an evaluation that this rank reports, which only rank 0 makes";
    return gate;
  }
  const double nats = expected.nats_per_token, noise = std::abs(repeated - nats) / nats;
  gate.value = std::abs(actual.nats_per_token - nats) / nats;
  gate.bound = std::max(kEvaluationBound, 2 * noise);
  gate.passed = gate.value <= gate.bound && actual.tokens == expected.tokens &&
                actual.bytes == expected.bytes;
  gate.detail = fmt::format("relative, against one process on all batches; {} of {} tokens",
                            actual.tokens,
                            expected.tokens);
  return gate;
}

} // namespace

std::vector<GateResult> gradient_gates(const TrainConfig& level,
                                       const std::vector<Batch>& batches,
                                       const std::shared_ptr<ProcessGroup>& ranks) {
  std::vector<GateResult> gates = averaged_gradient_gates(level, batches, ranks);
  gates.push_back(overflow_gate(level, batches, ranks));
  return gates;
}

std::vector<GateResult> validation_gates(const TrainConfig& level,
                                         const std::vector<Batch>& batches,
                                         const std::shared_ptr<ProcessGroup>& ranks) {
  TrainConfig single = level;
  single.ranks = 1;
  single.sharding = Sharding::None;
  Trainer together(level, ranks);
  for (std::size_t i = 0; i < kPasses; ++i) // the EMA differs from the weights then
    (void)together.step(micro_batches(batches, level.accumulate, i));
  const std::vector<Batch> all = gather_batches(batches, level, *ranks);
  const GateResult same = same_collectives(together, all, level.device, *ranks);
  if (!same.passed) return {same};

  Trainer alone(single);
  alone.load_state_tensors(together.state_tensors());
  const EvalResult expected = alone.evaluate(all), actual = together.evaluate(all);
  const bool knows = level.validation_ranks != ValidationRanks::None || ranks->rank() == 0;
  const GateResult loss =
      evaluation_gate(actual, expected, alone.evaluate(all).nats_per_token, knows);
  (void)together.step(micro_batches(batches, level.accumulate, kPasses));
  return {same,
          loss,
          agreement(flat(together.weights()), "weights after the next step", level.device, *ranks)};
}

} // namespace assay
