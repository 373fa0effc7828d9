// What a compiled package computes: logits, and the loss of an evaluation after a step, which shows
// that it reads the weights as they are then, and their average.
#include <fmt/format.h>

#include <cmath>

#include "model/gates/gate_parts.h"
#include "model/gates/gates.h"

namespace assay {

std::vector<GateResult> compiled_gates(const TrainConfig& reference,
                                       const TrainConfig& level,
                                       const std::vector<Batch>& batches) {
  Trainer eager(reference), compiled(level);
  const std::vector<Batch> prepared = prepared_for(reference, batches);
  const Batch& first = prepared.front();
  const double logits =
      relative_rms(level.eval_forward == EvalForward::Compiled ? compiled.compiled_logits(first)
                                                               : compiled.logits(first),
                   eager.logits(first));
  (void)eager.step(prepared);
  (void)compiled.step(prepared);
  const double a = eager.evaluate(prepared).nats_per_token,
               b = compiled.evaluate(prepared).nats_per_token, off = std::abs(b - a) / a;
  return {{"math/compiled_logits",
           logits <= kFp32Bound,
           logits,
           kFp32Bound,
           "relative RMS against the reference"},
          {"math/evaluation_loss",
           off <= kFp32Bound,
           off,
           kFp32Bound,
           fmt::format("{:.6f} nats per token after a step; the reference: {:.6f}", b, a)}};
}

} // namespace assay
