// The loss that two trainers of one function print: in training, and in an evaluation.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/gates/gate_parts.h"
#include "model/gates/gates.h"

namespace assay {

namespace {

constexpr double kFp32LossBound = 1e-5, kHalfLossBound = 1e-3; // as shares of the loss

struct Losses {
  double training, evaluation; // nats per token
};

Losses losses_of(const TrainConfig& config, const std::vector<Batch>& given) {
  const std::vector<Batch> batches = prepared_for(config, given);
  Trainer trainer(config);
  const double evaluation = trainer.evaluate(batches).nats_per_token; // before a step changes them
  return {trainer.step(micro_batches(batches, config.accumulate, 0)).loss(), evaluation};
}

} // namespace

// In 16-bit precision both are measured against fp32, and the level may be off by twice what the
// reference is off.
std::vector<GateResult> loss_gates(const TrainConfig& reference,
                                   const TrainConfig& level,
                                   const std::vector<Batch>& batches) {
  const bool fp32 = reference.precision == Precision::Fp32;
  const Losses a = losses_of(reference, batches), b = losses_of(level, batches),
               truth = fp32 ? a : losses_of(in_fp32(reference), batches);
  const auto gate = [&](const char* name, double x, double y, double z) {
    const double value = std::abs(y - z) / z, own = std::abs(x - z) / z;
    const double bound = fp32 ? kFp32LossBound : std::max(kHalfLossBound, 2 * own);
    return GateResult{
        name,
        std::isfinite(y) && value <= bound,
        value,
        bound,
        fp32 ? fmt::format("{:.6f} nats per token; the reference: {:.6f}", y, x)
             : fmt::format("{:.6f} nats per token; fp32: {:.6f}, the reference: {:.6f}", y, z, x)};
  };
  return {gate("math/training_loss", a.training, b.training, truth.training),
          gate("math/evaluation_loss", a.evaluation, b.evaluation, truth.evaluation)};
}

} // namespace assay
