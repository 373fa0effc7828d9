// Parity gates: a level is timed only after it has been shown to compute what its row promises.
// Each check is also callable alone, on any function, so that tests can prove that a wrong function
// is rejected.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "model/config/optimization.h"
#include "model/gates/code_path.h"
#include "model/layout/batch.h"
#include "model/training/trainer.h"

namespace assay {

class ProcessGroup;

struct GateResult {
  std::string name; // "bitwise/weights", "isolation/documents", "math/packed" …
  bool passed = false;
  double value = 0; // measured difference
  double bound = 0; // allowed difference
  std::string detail;
};

// All gates of `level` against `reference` for this row. Both configs are resolved, the batches
// prepared. Rows that need ranks: collective, every rank with batches of its own. The other rows
// are judged on each rank alone. `of_reference`: what the reference's loader gave for `batches`;
// empty: the same.
std::vector<GateResult> run_gates(const Optimization& optimization,
                                  const TrainConfig& reference,
                                  const TrainConfig& level,
                                  const std::vector<Batch>& batches,
                                  const std::shared_ptr<ProcessGroup>& ranks = nullptr,
                                  const std::vector<Batch>& of_reference = {});

// Gate::Batches: how many of the level's batches differ in tokens, targets or borders.
GateResult batches_gate(const std::vector<Batch>& of_reference, const std::vector<Batch>& batches);

// Gate::Loss (model/gates/loss_gates.cpp).
std::vector<GateResult> loss_gates(const TrainConfig& reference,
                                   const TrainConfig& level,
                                   const std::vector<Batch>& batches);

// Gate::Compiled (model/gates/compiled_gates.cpp) and Gate::Int8 (model/gates/int8_gates.cpp).
std::vector<GateResult> compiled_gates(const TrainConfig& reference,
                                       const TrainConfig& level,
                                       const std::vector<Batch>& batches);
std::vector<GateResult> int8_gates(const TrainConfig& reference,
                                   const TrainConfig& level,
                                   const std::vector<Batch>& batches);

// Gate::Update and Gate::Copies (model/gates/update_gates.cpp).
std::vector<GateResult> update_gates(const TrainConfig& reference, const TrainConfig& level);
std::vector<GateResult> copies_gates(const TrainConfig& reference,
                                     const TrainConfig& level,
                                     const std::vector<Batch>& batches);

// Gate::SameFunction of a level in FP8 whose reference is not (model/gates/fp8_gates.cpp): linears,
// then logits and gradients, each against a wider type.
std::vector<GateResult>
fp8_gates(const TrainConfig& reference, const TrainConfig& level, const Batch& batch);

// Gate::Sharding (model/gates/update_gates.cpp), Gate::Gradients and Gate::Validation
// (model/gates/ddp_gates.cpp): `ranks` has at least two.
std::vector<GateResult> sharding_gates(const TrainConfig& level,
                                       const std::shared_ptr<ProcessGroup>& ranks);
std::vector<GateResult> gradient_gates(const TrainConfig& level,
                                       const std::vector<Batch>& batches,
                                       const std::shared_ptr<ProcessGroup>& ranks);
std::vector<GateResult> validation_gates(const TrainConfig& level,
                                         const std::vector<Batch>& batches,
                                         const std::shared_ptr<ProcessGroup>& ranks);

using LogitsFunction = std::function<at::Tensor(const Batch&)>;     // prepared batch -> [B*T, V]
using DeltaFunction = std::function<at::Tensor(const at::Tensor& q, // as gated_delta_rule_*
                                               const at::Tensor& k,
                                               const at::Tensor& v,
                                               const at::Tensor& g,
                                               const at::Tensor& beta,
                                               const Segments& segments)>;

// Replaces one segment's tokens after another; every output of every other segment must stay
// bit-equal.
GateResult isolation_gate(const LogitsFunction& logits,
                          const Batch& batch,
                          const Segments& segments,
                          std::int64_t vocab);
// Changes single tokens; every earlier output of the whole row must stay bit-equal, and a later one
// must change.
GateResult causality_gate(const LogitsFunction& logits, const Batch& batch, std::int64_t vocab);
// Packed documents against each document alone, whose products round otherwise. In 16-bit precision
// they may be as far apart as rounding takes the packed logits from fp32, where `exact` gives
// those.
GateResult per_document_gate(const LogitsFunction& logits,
                             const Batch& batch,
                             const TrainConfig& config,
                             const LogitsFunction& exact = {});
// A form of the gated delta rule against the recurrence, on random inputs over the batch's
// documents.
GateResult
delta_rule_gate(const DeltaFunction& form, const Batch& batch, const TrainConfig& config);

// Single linears in FP8, forward and backward on random values: of d_model and ffn_dim.
using LinearFunction = std::function<at::Tensor(const at::Tensor& x, const at::Tensor& weight)>;
std::vector<GateResult> fp8_linear_gates(const LinearFunction& linear, const TrainConfig& config);

// ||a - b|| / ||b|| in fp64; inf when a holds a value that is not finite and b does not.
double relative_rms(const at::Tensor& a, const at::Tensor& b);

} // namespace assay
