// Rows of optimizations(). What only several ranks have.
#include "model/config/optimizations/rows.h"

#include <functional>
#include <utility>

namespace assay {

namespace {

// Of both levels that share: a share is no matrix, and has no copies.
std::vector<Need> sharding_needs() {
  const auto shares = [](const TrainConfig& c) { return c.sharding != Sharding::None; };
  const auto needed = [shares](NeedWords words, std::function<bool(const TrainConfig&)> met) {
    return Need{.words = std::move(words),
                .met = [shares, met = std::move(met)](
                           const TrainConfig& c) { return !shares(c) || met(c); },
                .always = true};
  };
  return {
      needed({"optimizer = adamw", "Muon takes whole matrices"},
             [](const TrainConfig& c) { return c.optimizer == OptimizerKind::Adamw; }),
      needed(
          {"update_pass = foreach or per_parameter", "one pass takes the norm of a rank's share"},
          [](const TrainConfig& c) { return c.update_pass != UpdatePass::OnePass; }),
      needed({"weights16 = cast", "kept copies are of whole weights"},
             [](const TrainConfig& c) { return c.weights16 == Weights16::Cast; }),
      needed({"mup_width = 0", "its learning rates are those of matrices"},
             [](const TrainConfig& c) { return c.mup_width == 0; }),
      needed({"precision other than fp8", "its casts are of whole weights"},
             [](const TrainConfig& c) { return c.precision != Precision::Fp8; }),
      needed({"step_graph = off", "weights that come and go have no fixed address"},
             [](const TrainConfig& c) { return c.step_graph == StepGraph::Off; }),
      needed({"ddp_compress = none, ddp_static_graph = false and ddp_find_unused = false",
              "they are of all-reduced gradients"},
             [](const TrainConfig& c) {
               return c.ddp_compress == DdpCompress::None && !c.ddp_static_graph &&
                      !c.ddp_find_unused;
             }),
      needed({"accumulate = 1 or ddp_accumulate = every_micro_step",
              "gradients of whole weights do not outlast a pass"},
             [](const TrainConfig& c) {
               return c.accumulate == 1 || c.ddp_accumulate == DdpAccumulate::EveryMicroStep;
             }),
  };
}

} // namespace

std::vector<Optimization> rank_rows() {
  return {
      {.name = "ddp_buckets",
       .summary = "gradients of several ranks are all-reduced in buckets of this size during "
                  "the backward pass",
       .equivalence = Equivalence::Math,
       .unit = Unit::TrainStep,
       .gates = {Gate::Gradients},
       .levels =
           {{"mib1",
             "1 MiB: many all-reduces, the first one early",
             [](TrainConfig& c) { c.ddp_bucket_mib = 1; },
             "ddp/buckets_1"},
            {"mib25",
             "25 MiB, PyTorch's default",
             [](TrainConfig& c) { c.ddp_bucket_mib = 25; },
             "ddp/buckets_25"},
            {"mib50", "50 MiB", [](TrainConfig& c) { c.ddp_bucket_mib = 50; }, "ddp/buckets_50"},
            {"mib100",
             "100 MiB: few all-reduces, the last one late",
             [](TrainConfig& c) { c.ddp_bucket_mib = 100; },
             "ddp/buckets_100"}},
       .also_compare = {{"mib25", "mib50"}, {"mib25", "mib100"}},
       .equality = "averaged gradients equal those of one process on the batches of all ranks",
       .needs_ranks = true},
      {.name = "ddp_static_graph",
       .summary = "the gradients that the first step brings are expected of every later one",
       .equivalence = Equivalence::Math,
       .unit = Unit::TrainStep,
       .gates = {Gate::Gradients},
       .levels = {{"off",
                   "the graph may change from step to step",
                   [](TrainConfig& c) { c.ddp_static_graph = false; },
                   "ddp/dynamic_graph"},
                  {"on",
                   "the graph is the first step's",
                   [](TrainConfig& c) { c.ddp_static_graph = true; },
                   "ddp/static_graph"}},
       .equality = "averaged gradients equal those of one process on the batches of all ranks",
       .needs_ranks = true},
      {.name = "ddp_find_unused",
       .summary = "the search for parameters without a gradient, and its all-reduce, are left "
                  "out where every parameter has one",
       .equivalence = Equivalence::Math,
       .unit = Unit::TrainStep,
       .gates = {Gate::Gradients},
       .levels = {{"on",
                   "the graph is searched every step; buckets keep the parameters' order",
                   [](TrainConfig& c) { c.ddp_find_unused = true; },
                   "ddp/find_unused"},
                  {"off",
                   "every parameter has a gradient; buckets take the order of the first step",
                   [](TrainConfig& c) { c.ddp_find_unused = false; },
                   "ddp/all_used"}},
       .equality = "averaged gradients equal those of one process on the batches of all ranks",
       .needs_ranks = true},
      {.name = "ddp_accumulate",
       .summary = "gradients are all-reduced once per optimizer step instead of once "
                  "per micro-step",
       .equivalence = Equivalence::Math,
       .unit = Unit::TrainStep,
       .on_tiny = "accumulate=4",
       .gates = {Gate::Gradients},
       .levels = {{"every_micro_step",
                   "all-reduce after every micro-step",
                   [](TrainConfig& c) { c.ddp_accumulate = DdpAccumulate::EveryMicroStep; },
                   "ddp/every_micro_step"},
                  {"last",
                   "accumulate on the rank, all-reduce after the last micro-step",
                   [](TrainConfig& c) { c.ddp_accumulate = DdpAccumulate::Last; },
                   "ddp/last_micro_step"}},
       .equality = "averaged gradients equal those of one process on the batches of all ranks",
       .needs_ranks = true,
       .needs = {{{"accumulate = 2 or more",
                   "a step of one micro-step all-reduces once on both sides"},
                  [](const TrainConfig& c) { return c.accumulate > 1; }}}},
      {.name = "ddp_compress",
       .summary = "gradients are sent in 16 bits",
       .equivalence = Equivalence::Statistical,
       .unit = Unit::TrainStep,
       .gates = {Gate::Gradients},
       .levels = {{"none",
                   "gradients are sent as they are, in fp32",
                   [](TrainConfig& c) { c.ddp_compress = DdpCompress::None; },
                   "ddp/compress_none"},
                  {"fp16",
                   "cast to fp16, summed in fp16, cast back",
                   [](TrainConfig& c) { c.ddp_compress = DdpCompress::Fp16; },
                   "ddp/compress_fp16"},
                  {"bf16",
                   "cast to bf16, summed in bf16, cast back",
                   [](TrainConfig& c) { c.ddp_compress = DdpCompress::Bf16; },
                   "ddp/compress_bf16"}},
       .also_compare = {{"fp16", "bf16"}},
       .equality = "averaged gradients equal those of one process within the rounding of the "
                   "type that is sent",
       .needs_ranks = true},
      {.name = "sharding",
       .summary =
           "every rank updates its share of the weights, and keeps the optimizer's state and "
           "average of that share alone (ZeRO, FSDP)",
       .equivalence = Equivalence::Math,
       .unit = Unit::TrainStep,
       .on_cuda = "update_pass=foreach weights16=cast step_graph=off",
       .gates = {Gate::Gradients, Gate::Sharding},
       .levels = {{"none",
                   "every rank keeps and updates everything; gradients are all-reduced",
                   [](TrainConfig& c) { c.sharding = Sharding::None; },
                   "sharding/none"},
                  {"optimizer",
                   "state and average in shares; gradients are reduce-scattered, weights gathered "
                   "after the update",
                   [](TrainConfig& c) { c.sharding = Sharding::Optimizer; },
                   "sharding/optimizer"},
                  {"parameters",
                   "weights in shares too: a layer's are gathered before its forward and before "
                   "its backward pass",
                   [](TrainConfig& c) { c.sharding = Sharding::Parameters; },
                   "sharding/parameters"}},
       .also_compare = {{"optimizer", "parameters"}},
       .equality = "averaged gradients, and weights, moments and average after updates, equal "
                   "those of one process on the batches of all ranks",
       .needs_ranks = true,
       .needs = sharding_needs()},
      {.name = "validation_ranks",
       .summary = "the evaluation's batches are shared among the ranks",
       .equivalence = Equivalence::Math,
       .unit = Unit::Evaluation,
       .gates = {Gate::Validation},
       .levels = {{"rank0",
                   "rank 0 evaluates alone; the others wait at the barrier after it",
                   [](TrainConfig& c) { c.validation_ranks = ValidationRanks::Rank0; },
                   "validation/rank0"},
                  {"sharded",
                   "every rank evaluates its share; loss sum and token count are all-reduced",
                   [](TrainConfig& c) { c.validation_ranks = ValidationRanks::Sharded; },
                   "validation/sharded"},
                  {"none",
                   "rank 0 evaluates alone; nobody waits for it or is told the result, and the "
                   "others wait in the next collective",
                   [](TrainConfig& c) { c.validation_ranks = ValidationRanks::None; },
                   "validation/none"},
                  {.name = "seed_barrier",
                   .summary = "a known bug: the barrier is inside rank 0's branch, which no "
                              "other rank reaches",
                   .apply =
                       [](TrainConfig& c) { c.validation_ranks = ValidationRanks::SeedBarrier; },
                   .span = "validation/seed_barrier",
                   .wrong = true}},
       .also_compare = {{"rank0", "sharded"}, {"none", "sharded"}},
       .equality = "every rank issues the same collectives; the loss equals that of one "
                   "process on all batches, on every rank that is told it",
       .needs_ranks = true},
  };
}

} // namespace assay
