// What an update does with given gradients, and whether 16-bit copies follow the weights.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <string>

#include "model/ddp/process_group.h"
#include "model/gates/gates.h"

namespace assay {

namespace {

constexpr std::size_t kUpdates = 4,
                      kSkipped = 2;       // the update that meets an inf, where one is tried
constexpr double kChangeBound = 1e-3;     // of the sum of updates, which weights round
constexpr double kMuon16Bound = 3e-2;     // the same where Muon's products round to 16 bits
constexpr double kStateBound = 1e-5;      // of moments, average and norm
constexpr double kLossBound = 1e-5;       // as a share of the loss
constexpr double kShareBetween = 6 * 256; // bytes of fp32 moments and average: at most 64 elements
                                          // behind a parameter, and as many behind a share

double change_bound(const TrainConfig& config) {
  const bool rounds =
      config.optimizer == OptimizerKind::Muon && config.precision != Precision::Fp32;
  return rounds ? kMuon16Bound : kChangeBound;
}

// Of names that begin with one of the prefixes, in the names' order.
template <class... Prefixes>
at::Tensor flat_with(const NamedTensors& tensors, const Prefixes&... prefixes) {
  const std::map<std::string, at::Tensor> by_name(tensors.begin(), tensors.end());
  std::vector<at::Tensor> parts;
  for (const auto& [name, tensor] : by_name)
    if ((name.starts_with(prefixes) || ...)) parts.push_back(tensor.reshape(-1).to(at::kFloat));
  return parts.empty() ? at::Tensor() : at::cat(parts); // a copy
}

struct State {
  at::Tensor weights, first, second; // flat; moments, Muon's momentum among the first
  at::Tensor average;                // flat; undefined without one
  double steps;                      // updates made

  explicit State(const Trainer& trainer) : State(trainer.state_tensors()) {}
  explicit State(const NamedTensors& tensors)
      : weights(flat_with(tensors, "model.")),
        first(flat_with(tensors, "optimizer.exp_avg.", "optimizer.momentum.")),
        second(flat_with(tensors, "optimizer.exp_avg_sq.")), average(flat_with(tensors, "ema.")),
        steps(flat_with(tensors, "optimizer.step").item<double>()) {}

  std::int64_t differing(const State& other) const { // weights and moments
    return weights.ne(other.weights).sum().item<std::int64_t>() +
           first.ne(other.first).sum().item<std::int64_t>() +
           second.ne(other.second).sum().item<std::int64_t>();
  }
};

// Of every parameter a gradient of another size, so that each is seen in the norm.
std::vector<at::Tensor> drawn_gradients(const Trainer& trainer, std::size_t update, bool overflow) {
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(update + 1);
  const double scale = trainer.scaler().current_scale();
  std::vector<at::Tensor> gradients;
  for (const Parameter& p : trainer.parameters()) {
    const double size = std::pow(0.5, static_cast<double>(gradients.size() % 7));
    gradients.push_back(at::empty(p.tensor.sizes(), at::kFloat)
                            .normal_(0, size, generator)
                            .mul_(scale)
                            .to(p.tensor.device()));
  }
  if (overflow) gradients.back().view(-1)[0].fill_(std::numeric_limits<double>::infinity());
  return gradients;
}

struct Updated {
  State first, last;
  at::Tensor norms;         // fp64 [kUpdates]
  std::int64_t changed = 0; // weights and moments that a skipped update changed
  std::int64_t skipped = 0; // updates
};

using Ranks = std::shared_ptr<ProcessGroup>; // null: alone

Updated updated(const TrainConfig& config, bool overflow, const Ranks& ranks) {
  Trainer trainer(config, ranks);
  const State first(trainer);
  std::vector<double> norms;
  std::int64_t changed = 0;
  for (std::size_t i = 0; i < kUpdates; ++i) {
    const bool bad = overflow && i == kSkipped;
    const State before(trainer);
    const StepResult result = trainer.update_with(drawn_gradients(trainer, i, bad));
    if (!bad) norms.push_back(result.grad_norm());
    const State after(trainer);
    if (bad) changed = before.differing(after);
  }
  return {first, State(trainer), at::tensor(norms, at::kDouble), changed, trainer.skipped_steps()};
}

GateResult
near(const char* name, const at::Tensor& actual, const at::Tensor& expected, double bound) {
  GateResult gate{name, false, relative_rms(actual, expected), bound, ""};
  gate.passed = gate.value <= bound;
  gate.detail = fmt::format("after {} updates with the same gradients", kUpdates);
  return gate;
}

// Both with a loss scaler, and an overflow in one update.
std::vector<GateResult> skip_gates(TrainConfig reference, TrainConfig level, const Ranks& ranks) {
  reference.grad_scaler = level.grad_scaler = GradScaler::Dynamic;
  const Updated a = updated(reference, true, nullptr), b = updated(level, true, ranks);
  const auto changed = static_cast<double>(b.changed);
  const bool counted = b.skipped == 1 && b.last.steps == static_cast<double>(kUpdates - 1);
  GateResult skipped{"bitwise/skipped", b.changed == 0 && counted, changed, 0, ""};
  skipped.detail = fmt::format("weights and moments that an update with an inf in its gradients "
                               "changed; {} of {} updates were skipped",
                               b.skipped,
                               kUpdates);
  GateResult rest = near("math/after_skip",
                         b.last.weights - b.first.weights,
                         a.last.weights - a.first.weights,
                         change_bound(level));
  rest.detail += ", of which one is skipped";
  return {skipped, rest};
}

// --- 16-bit copies -------------------------------------------------------------------------------

GateResult copies_gate(const char* name, const Trainer& trainer, const char* when) {
  const at::NoGradGuard no_grad;
  const KeptWeights& kept = *trainer.kept_weights();
  std::int64_t differing = 0, elements = 0;
  for (const Parameter& p : trainer.parameters()) {
    const at::Tensor copy = kept.find(p.tensor);
    if (!copy.defined()) continue;
    elements += copy.numel();
    differing += copy.ne(p.tensor.to(kept.type())).sum().item<std::int64_t>();
  }
  return {
      name,
      differing == 0 && elements > 0,
      static_cast<double>(differing),
      0,
      fmt::format("16-bit copies that differ from the rounded weights {}, of {}", when, elements)};
}

GateResult
evaluation_gate(const TrainConfig& reference, Trainer& trainer, const std::vector<Batch>& batches) {
  Trainer other(reference);
  other.load_state_tensors(trainer.state_tensors());
  const double expected = other.evaluate(batches).nats_per_token,
               actual = trainer.evaluate(batches).nats_per_token;
  const double value = std::abs(actual - expected) / expected;
  return {"math/average_loss",
          std::isfinite(actual) && value <= kLossBound,
          value,
          kLossBound,
          fmt::format("evaluation on the average: {:.6f} nats per token; the reference: {:.6f}",
                      actual,
                      expected)};
}

// `ranks`: of the level; the reference is alone.
std::vector<GateResult>
gates_of_updates(TrainConfig reference, TrainConfig level, const Ranks& ranks) {
  reference.grad_scaler = level.grad_scaler = GradScaler::Off;
  const Updated a = updated(reference, false, nullptr), b = updated(level, false, ranks);
  std::vector<GateResult> gates{
      near("math/weights",
           b.last.weights - b.first.weights,
           a.last.weights - a.first.weights,
           change_bound(level)),
      near("math/first_moment", b.last.first, a.last.first, kStateBound),
      near("math/second_moment", b.last.second, a.last.second, kStateBound),
      near("math/norm", b.norms, a.norms, kStateBound)};
  if (a.last.average.defined())
    gates.push_back(near("math/average", b.last.average, a.last.average, kStateBound));
  for (GateResult& gate : skip_gates(reference, level, ranks)) gates.push_back(std::move(gate));
  return gates;
}

// Of the optimizer and the average, as they lie on this rank.
double state_bytes(const Trainer& trainer) {
  double bytes = 0;
  for (const auto& [name, tensor] : trainer.lasting_tensors())
    if (name.starts_with("optimizer.exp_avg") || name.starts_with("ema."))
      bytes += static_cast<double>(tensor.nbytes());
  return bytes;
}

GateResult share_gate(const TrainConfig& single, const TrainConfig& level, const Ranks& ranks) {
  const Trainer alone(single), together(level, ranks);
  const double size = ranks->size(), whole = state_bytes(alone);
  // What lies between parameters of a unit is in one rank's share.
  const double between = kShareBetween * static_cast<double>(alone.parameters().size()) * size;
  GateResult gate{"share/state", false, size * state_bytes(together) / whole, 0, ""};
  gate.bound = level.sharding == Sharding::None ? size : 1 + between / whole;
  gate.passed = gate.value <= gate.bound;
  gate.detail = fmt::format("bytes of the optimizer and the average on this rank, times {} ranks, "
                            "as a share of one process's",
                            ranks->size());
  return gate;
}

} // namespace

std::vector<GateResult> update_gates(const TrainConfig& reference, const TrainConfig& level) {
  return gates_of_updates(reference, level, nullptr);
}

std::vector<GateResult> sharding_gates(const TrainConfig& level, const Ranks& ranks) {
  TrainConfig single = level;
  single.ranks = 1;
  single.sharding = Sharding::None;
  std::vector<GateResult> gates = gates_of_updates(single, level, ranks);
  gates.push_back(share_gate(single, level, ranks));
  return gates;
}

std::vector<GateResult> copies_gates(const TrainConfig& reference,
                                     const TrainConfig& level,
                                     const std::vector<Batch>& batches) {
  Trainer trainer(level);
  if (trainer.kept_weights() == nullptr)
    return {{"copies/none", level.weights16 == Weights16::Cast, 0, 0, "the level keeps no copies"}};
  std::vector<GateResult> gates;
  NamedTensors saved;
  for (const auto& [name, tensor] : trainer.state_tensors())
    saved.emplace_back(name, tensor.clone());
  for (std::size_t i = 0; i < kUpdates; ++i)
    (void)trainer.step(micro_batches(batches, level.accumulate, i));
  gates.push_back(copies_gate("bitwise/copies", trainer, "after steps"));
  {
    const auto averaged = trainer.use_ema();
    gates.push_back(copies_gate("bitwise/copies_of_average", trainer, "while the average is in"));
  }
  gates.push_back(evaluation_gate(reference, trainer, batches));
  gates.push_back(copies_gate("bitwise/copies_restored", trainer, "after an evaluation"));
  trainer.load_state_tensors(saved);
  gates.push_back(copies_gate("bitwise/copies_loaded", trainer, "after a checkpoint is loaded"));
  return gates;
}

} // namespace assay
