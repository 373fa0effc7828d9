// Which gates a row must pass, and the gates that compare two trainers.
#include "model/gates/gates.h"

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/result.h"
#include "model/config/family_config.h"
#include "model/ddp/process_group.h"
#include "model/gates/gate_parts.h"
#include "model/layers/attention/attention.h"
#include "model/layers/delta_rule/gated_delta_rule.h"
#include "model/layout/segments.h"
#include "model/nsa/nsa.h"

namespace assay {

TrainConfig in_fp32(TrainConfig config) {
  config.precision = Precision::Fp32;
  if (config.mla_attention == MlaAttention::Cudnn) config.mla_attention = MlaAttention::FlashPadded;
  config.weights16 = Weights16::Cast;
  config.epilogue = Epilogue::None;
  config.residual = Residual::Fp32;
  config.fp8_scaling = Fp8Scaling::Current;
  config.product_choice = ProductChoice::Heuristic;
  config.step_graph = StepGraph::Off;
  if (config.device == Device::Cuda) config.gqa = Gqa::Repeat;
  return config;
}

std::vector<Batch> prepared_for(const TrainConfig& config, std::vector<Batch> batches) {
  for (Batch& batch : batches) prepare(batch, config);
  return batches;
}

at::Tensor flat(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> parts;
  for (const at::Tensor& tensor : tensors) parts.push_back(tensor.reshape(-1));
  return at::cat(parts);
}

at::Tensor flat(const NamedTensors& tensors) {
  std::vector<at::Tensor> parts;
  for (const auto& [name, tensor] : tensors) parts.push_back(tensor.reshape(-1));
  return at::cat(parts);
}

namespace {

GateResult compare(const char* what,
                   const at::Tensor& reference,
                   const std::vector<at::Tensor>& again,
                   const at::Tensor& actual,
                   std::size_t steps) {
  double own = 0;
  for (const at::Tensor& repeated : again)
    if (!at::equal(reference, repeated)) own = std::max(own, relative_rms(repeated, reference));
  const double difference = at::equal(reference, actual) ? 0 : relative_rms(actual, reference);
  GateResult gate{
      fmt::format("{}/{}", own == 0 ? "bitwise" : "math", what), false, difference, 2 * own, ""};
  gate.passed = std::isfinite(difference) && difference <= gate.bound &&
                at::isfinite(actual).all().item<bool>();
  if (!at::isfinite(reference).all().item<bool>()) {
    gate.detail =
        fmt::format("after {} steps the reference's own are not finite, so nothing can be "
                    "compared with them: it diverges as it is configured; try a lower lr",
                    steps);
    return gate;
  }
  gate.detail =
      own == 0
          ? fmt::format("after {} steps; the reference repeats itself bit for bit", steps)
          : fmt::format("after {} steps; the reference differs from itself by up to {:.2e} in {} "
                        "repetitions, so the bound is twice that",
                        steps,
                        own,
                        again.size());
  return gate;
}

} // namespace

std::vector<GateResult> compare_trainings(const Trained& reference,
                                          const Trained& level,
                                          std::size_t steps,
                                          const std::function<Trained()>& train_again) {
  const auto equal = [&](const Trained& other) {
    return at::equal(reference.weights, other.weights) && at::equal(reference.losses, other.losses);
  };
  std::vector<at::Tensor> weights, losses;
  bool same = equal(level);
  do {
    const Trained again = train_again();
    weights.push_back(again.weights);
    losses.push_back(again.losses);
    same = same && equal(again);
  } while (!same && weights.size() < kRepetitions);
  return {compare("weights", reference.weights, weights, level.weights, steps),
          compare("loss", reference.losses, losses, level.losses, steps)};
}

namespace {

constexpr std::size_t kSteps = 4;
constexpr std::size_t kGraphSteps = 8; // the first three are eager, the others replays
constexpr double kFp32GradientBound = 1e-4;

Trained train(const TrainConfig& config, const std::vector<Batch>& given, std::size_t steps) {
  const std::vector<Batch> batches = prepared_for(config, given);
  Trainer trainer(config);
  std::vector<double> losses;
  for (std::size_t i = 0; i < steps; ++i)
    losses.push_back(trainer.step(micro_batches(batches, config.accumulate, i)).loss());
  return {at::tensor(losses, at::kDouble), flat(trainer.weights())};
}

std::vector<GateResult> training_gates(const TrainConfig& reference,
                                       const TrainConfig& level,
                                       const std::vector<Batch>& batches,
                                       const std::string& note) {
  const std::size_t steps = level.step_graph == StepGraph::On ? kGraphSteps : kSteps;
  std::vector<GateResult> gates =
      compare_trainings(train(reference, batches, steps), train(level, batches, steps), steps, [&] {
        return train(reference, batches, steps);
      });
  for (GateResult& gate : gates) gate.detail += note;
  return gates;
}

GateResult finite_gate(const TrainConfig& level, const std::vector<Batch>& batches) {
  const at::Tensor losses = train(level, batches, kSteps).losses;
  const std::int64_t lost = losses.numel() - at::isfinite(losses).sum().item<std::int64_t>();
  return {"finite/loss",
          lost == 0,
          static_cast<double>(lost),
          0,
          fmt::format("losses of {} training steps that are not finite", kSteps)};
}

// Scaling in 16-bit precision changes what underflows: that is its purpose. The mechanism itself is
// proved in fp32.
std::vector<GateResult> scaler_gates(const TrainConfig& given_reference,
                                     const TrainConfig& given_level,
                                     const std::vector<Batch>& batches) {
  const bool lowered = given_reference.precision != Precision::Fp32;
  const TrainConfig reference = in_fp32(given_reference), level = in_fp32(given_level);
  std::vector<GateResult> gates =
      training_gates(reference,
                     level,
                     batches,
                     lowered ? "; compared in fp32, where a power of two is exact" : "");
  Trainer trainer(level);
  for (std::size_t i = 0; i < kSteps; ++i)
    (void)trainer.step(micro_batches(batches, level.accumulate, i));
  const auto skipped = static_cast<double>(trainer.skipped_steps());
  gates.push_back({"scaler/no_overflow",
                   skipped == 0,
                   skipped,
                   0,
                   "steps that an overflow skipped in the comparison"});
  return gates;
}

std::vector<GateResult> swap_gates(const TrainConfig& reference,
                                   const TrainConfig& level,
                                   const std::vector<Batch>& given) {
  const std::vector<Batch> batches = prepared_for(reference, given);
  Trainer a(reference), b(level);
  for (std::size_t i = 0; i < kSteps; ++i)
    (void)a.step(micro_batches(batches, reference.accumulate, i));
  b.load_state_tensors(a.state_tensors());
  const at::Tensor weights = flat(b.weights()), average = flat(b.ema_weights());
  const double expected = a.evaluate(batches).nats_per_token,
               repeated = a.evaluate(batches).nats_per_token;
  const double actual = b.evaluate(prepared_for(level, given)).nats_per_token;
  const auto bitwise =
      [](const char* name, const at::Tensor& now, const at::Tensor& before, const char* detail) {
        const bool equal = at::equal(now, before);
        return GateResult{name, equal, equal ? 0 : relative_rms(now, before), 0, detail};
      };
  const auto scalar = [](double value) { return at::scalar_tensor(value, at::kDouble); };
  GateResult loss =
      compare("evaluation", scalar(expected), {scalar(repeated)}, scalar(actual), kSteps);
  const double distance = relative_rms(average, weights);
  GateResult differs{"ema/differs", distance > 0, distance > 0 ? 0.0 : 1.0, 0, ""};
  differs.detail = fmt::format(
      "EMA and weights are {:.2e} apart, so evaluating on the wrong ones would show", distance);
  return {loss,
          bitwise("bitwise/restored", flat(b.weights()), weights, "weights after the evaluation"),
          bitwise("bitwise/ema", flat(b.ema_weights()), average, "EMA after the evaluation"),
          differs};
}

// Logits and gradients of `level` against `reference`, which compute the same function. In 16-bit
// precision both are measured against fp32, and the level may be off by twice what the reference is
// off.
std::vector<GateResult> same_function_gates(const TrainConfig& reference,
                                            const TrainConfig& level,
                                            const Batch& batch,
                                            const std::string& name) {
  if (level.precision == Precision::Fp8 && reference.precision != Precision::Fp8)
    return fp8_gates(reference, level, batch);
  const TrainConfig true_config = in_fp32(reference);
  Trainer a(reference), b(level), truth(true_config);
  const Batch for_a = prepared_for(reference, {batch}).front(),
              for_b = prepared_for(level, {batch}).front(),
              for_truth = prepared_for(true_config, {batch}).front();
  const bool fp32 = reference.precision == Precision::Fp32;
  const auto gate = [&](const std::string& gate_name,
                        const at::Tensor& x,
                        const at::Tensor& y,
                        const at::Tensor& z,
                        double bound) {
    const double value = relative_rms(y, z), own = relative_rms(x, z);
    GateResult result{gate_name, false, value, fp32 ? bound : std::max(kHalfBound, 2 * own), ""};
    result.passed = result.value <= result.bound;
    result.detail = fp32 ? "relative RMS against the reference"
                         : fmt::format("relative RMS against fp32; the reference: {:.2e}", own);
    return result;
  };
  return {gate(name,
               a.logits(for_a, reference.attention),
               b.logits(for_b, level.attention),
               truth.logits(for_truth, reference.attention),
               kFp32Bound),
          gate(name + "_gradients",
               flat(a.gradients(for_a)),
               flat(b.gradients(for_b)),
               flat(truth.gradients(for_truth)),
               kFp32GradientBound)};
}

// One FP8 scale for a whole tensor makes every output depend on every token, by rounding: what the
// paths do with documents and order is proved in the precision of everything that is not a linear.
TrainConfig without_fp8(TrainConfig config) {
  if (config.precision == Precision::Fp8) config.precision = Precision::Bf16;
  return config;
}

// Ranges of the batch's own documents from random choices, as each form makes them.
GateResult ranges_gate(const NsaLayout& layout, std::int64_t groups, NsaRanges form) {
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(7);
  std::vector<at::Tensor> parts;
  for (std::size_t i = 0; i < layout.selection_chunks.size(); ++i) {
    const QueryChunk& chunk = layout.selection_chunks[i];
    const at::Tensor scores = at::empty({groups, chunk.queries(), chunk.keys()})
                                  .uniform_(0, 1, generator)
                                  .to(layout.position.device());
    parts.push_back(nsa_top_blocks(scores, layout, i));
  }
  const at::Tensor blocks = at::cat(parts);
  const at::Tensor expected = nsa_chosen(blocks, layout, NsaRanges::V1);
  const std::int64_t differing =
      nsa_chosen(blocks, layout, form).ne(expected).sum().item<std::int64_t>();
  return {"bitwise/ranges",
          differing == 0,
          static_cast<double>(differing),
          0,
          fmt::format(
              "{} numbers of ranges that differ from v1's, of {}", differing, expected.numel())};
}

std::vector<GateResult> nsa_ranges_gates(const TrainConfig& given_reference,
                                         const TrainConfig& given_level,
                                         const std::vector<Batch>& batches) {
  const TrainConfig reference = without_fp8(given_reference), level = without_fp8(given_level);
  const Batch& batch = batches.front();
  if (batch.documents.sparse == nullptr)
    bad_input("nsa_ranges needs layers that select blocks; family {} as configured has none",
              level.family);
  std::vector<GateResult> gates = same_function_gates(reference, level, batch, "math/logits");
  if (level.nsa_ranges != NsaRanges::Direct)
    gates.push_back(ranges_gate(*batch.documents.sparse, level.kv_groups, level.nsa_ranges));
  Trainer trainer(level);
  const LogitsFunction logits = [&](const Batch& b) { return trainer.logits(b, level.attention); };
  gates.push_back(isolation_gate(logits, batch, batch.documents, level.vocab_size));
  gates.push_back(causality_gate(logits, batch, level.vocab_size));
  return gates;
}

// Two levels let documents see each other, and are the same function. Where the cell's reference
// isolates documents, each of them is compared with the other.
TrainConfig of_same_function(const TrainConfig& reference, const TrainConfig& level) {
  if (!isolates_documents(reference.attention)) return reference;
  TrainConfig other = level;
  other.attention =
      level.attention == Attention::MaskDense ? Attention::Packed : Attention::MaskDense;
  if (other.attention == Attention::MaskDense) // the one product that takes a mask
    other.mla_attention = MlaAttention::FlashPadded;
  return other;
}

// The choice of the largest scores looks at later tokens (docs/hydra.md): the order of everything
// else is proved without it.
GateResult order_gate(const LogitsFunction& logits,
                      const TrainConfig& level,
                      const Batch& batch,
                      Attention path) {
  if (level.mod_percent == 0 || level.mod_percent == 100)
    return causality_gate(logits, batch, level.vocab_size);
  TrainConfig causal = level;
  causal.mod_percent = 100;
  const Trainer trainer(causal);
  GateResult gate = causality_gate(
      [&](const Batch& b) { return trainer.logits(b, path); }, batch, level.vocab_size);
  gate.detail += "; with mod_percent = 100, since the largest scores are found by looking ahead";
  return gate;
}

std::vector<GateResult> varlen_gates(const TrainConfig& given_reference,
                                     const TrainConfig& given_level,
                                     const std::vector<Batch>& batches) {
  const TrainConfig reference = without_fp8(given_reference), level = without_fp8(given_level);
  const Batch& batch = batches.front();
  Trainer trainer(level);
  const LogitsFunction logits = [&](const Batch& b) { return trainer.logits(b, level.attention); };
  std::vector<GateResult> gates;
  if (isolates_documents(level.attention)) {
    gates.push_back(isolation_gate(logits, batch, batch.documents, level.vocab_size));
    gates.push_back(per_document_gate(logits, batch, level));
  } else {
    gates = same_function_gates(of_same_function(reference, level), level, batch, "math/packed");
    if (batch.rows.cu_host.size() > 2) {
      gates.push_back(isolation_gate(logits, batch, batch.rows, level.vocab_size));
      gates.back().name = "isolation/rows";
    }
  }
  gates.push_back(order_gate(logits, level, batch, level.attention));
  if (layouts_of(level).delta_rule)
    gates.push_back(delta_rule_gate(delta_rule_of(level.delta_form), batch, level));
  if (given_level.precision == Precision::Fp8)
    for (GateResult& gate : gates) gate.detail += "; in bf16, since FP8 scales whole tensors";
  return gates;
}

// Of a whole model with documents as segments, whatever its attention is.
LogitsFunction packed_logits(Trainer& trainer) {
  return [&trainer](const Batch& batch) { return trainer.logits(batch, Attention::Varlen); };
}

std::vector<GateResult>
document_gates(const LogitsFunction& logits, const Batch& batch, const TrainConfig& level) {
  return {isolation_gate(logits, batch, batch.documents, level.vocab_size),
          order_gate(logits, level, batch, Attention::Varlen)};
}

std::vector<GateResult>
packing_gates(const TrainConfig& reference, const TrainConfig& given_level, const Batch& batch) {
  const TrainConfig level = without_fp8(given_level), true_config = in_fp32(reference);
  Trainer trainer(level);
  const LogitsFunction logits = packed_logits(trainer);
  std::vector<GateResult> gates = document_gates(logits, batch, level);
  gates.push_back(per_document_gate(logits, batch, level, [&](const Batch&) {
    Trainer truth(true_config);
    return packed_logits(truth)(prepared_for(true_config, {batch}).front());
  }));
  return gates;
}

std::vector<GateResult> delta_rule_gates(const TrainConfig& given_level, const Batch& batch) {
  const TrainConfig level = without_fp8(given_level);
  Trainer trainer(level);
  std::vector<GateResult> gates = document_gates(packed_logits(trainer), batch, level);
  gates.insert(gates.begin(),
               delta_rule_gate(delta_rule_of(given_level.delta_form), batch, given_level));
  return gates;
}

std::vector<GateResult> run_gate(Gate gate,
                                 const TrainConfig& reference,
                                 const TrainConfig& level,
                                 const std::vector<Batch>& batches,
                                 const std::shared_ptr<ProcessGroup>& ranks,
                                 const std::vector<Batch>& of_reference) {
  switch (gate) {
  case Gate::Training:
    return training_gates(reference, level, batches, "");
  case Gate::Scaler:
    return scaler_gates(reference, level, batches);
  case Gate::EmaSwap:
    return swap_gates(reference, level, batches);
  case Gate::Isolation:
    return varlen_gates(reference, level, batches);
  case Gate::SameFunction:
    return same_function_gates(reference, level, batches.front(), "math/logits");
  case Gate::Loss:
    return loss_gates(reference, level, batches);
  case Gate::Update:
    return update_gates(reference, level);
  case Gate::Copies:
    return copies_gates(reference, level, batches);
  case Gate::DeltaRule:
    return delta_rule_gates(level, batches.front());
  case Gate::Documents:
    return packing_gates(reference, level, batches.front());
  case Gate::NsaRanges:
    return nsa_ranges_gates(reference, level, batches);
  case Gate::Gradients:
    return gradient_gates(level, batches, ranks);
  case Gate::Sharding:
    return sharding_gates(level, ranks);
  case Gate::Validation:
    return validation_gates(level, batches, ranks);
  case Gate::Batches:
    return {batches_gate(of_reference.empty() ? batches : of_reference, batches)};
  case Gate::Int8:
    return int8_gates(reference, level, batches);
  case Gate::Compiled:
    return compiled_gates(reference, level, batches);
  case Gate::Finite:
    return {finite_gate(level, batches)};
  }
  internal_error("unknown gate");
}

bool same_batch(const Batch& a, const Batch& b) {
  return at::equal(a.tokens, b.tokens) && at::equal(a.targets, b.targets) &&
         a.rows.cu_host == b.rows.cu_host && a.documents.cu_host == b.documents.cu_host &&
         a.bytes == b.bytes;
}

} // namespace

GateResult batches_gate(const std::vector<Batch>& of_reference, const std::vector<Batch>& batches) {
  const std::size_t common = std::min(of_reference.size(), batches.size());
  std::size_t differ = std::max(of_reference.size(), batches.size()) - common;
  for (std::size_t i = 0; i < common; ++i)
    if (!same_batch(of_reference[i], batches[i])) ++differ;
  return {
      "bitwise/batches",
      differ == 0,
      static_cast<double>(differ),
      0,
      fmt::format("{} of {} batches differ in tokens, targets or borders", differ, batches.size())};
}

std::vector<GateResult> run_gates(const Optimization& optimization,
                                  const TrainConfig& given_reference,
                                  const TrainConfig& given_level,
                                  const std::vector<Batch>& batches,
                                  const std::shared_ptr<ProcessGroup>& ranks,
                                  const std::vector<Batch>& of_reference) {
  if (batches.empty()) internal_error("gates need at least one batch");
  if (optimization.gates.empty())
    internal_error("optimization '{}' names no gate in model/config/optimizations/",
                   optimization.name);
  if (optimization.needs_ranks && (!ranks || ranks->size() < 2))
    internal_error("the gates of optimization '{}' need a group of two ranks or more",
                   optimization.name);
  TrainConfig reference = given_reference, level = given_level;
  if (!optimization.needs_ranks)
    reference.ranks = level.ranks = 1; // what these rows switch stays on its rank
  std::vector<GateResult> results;
  for (const Gate gate : optimization.gates)
    for (GateResult& result : run_gate(gate, reference, level, batches, ranks, of_reference))
      results.push_back(std::move(result));
  return results;
}

} // namespace assay
