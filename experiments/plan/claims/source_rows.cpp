#include "experiments/plan/claims/source_rows.h"

#include "core/result.h"

namespace assay {

const char* to_string(SourceRow::Answer answer) {
  switch (answer) {
  case SourceRow::Answer::Optimization:
    return "optimization";
  case SourceRow::Answer::Variants:
    return "variants";
  case SourceRow::Answer::Command:
    return "command";
  case SourceRow::Answer::Arithmetic:
    return "arithmetic";
  case SourceRow::Answer::Missing:
    return "missing";
  }
  internal_error("unknown answer");
}

namespace {

using enum SourceRow::Answer;

std::vector<SourceRow> deltanet_rows() {
  return {
      {"B1",
       "evaluation shared among ranks",
       Optimization,
       "validation_ranks",
       {"validation-ranks-idle", "validation-ranks-summary", "validation-ranks-barrier"}},
      {"B2",
       "loss scaling",
       Optimization,
       "grad_scaler",
       {"grad-scaler-convergence", "grad-scaler-report-convergence", "grad-scaler-amp"}},
      {"B3",
       "evaluation on averaged weights without a copy",
       Optimization,
       "ema_swap",
       {"ema-swap-memory",
        "ema-swap-validation-memory",
        "ema-swap-validation-time",
        "ema-swap-validation-faster",
        "ema-swap-speed"}},
      {"B4",
       "attention inside packed documents",
       Optimization,
       "varlen",
       {"varlen-throughput",
        "varlen-pytorch",
        "varlen-report",
        "varlen-report-check",
        "varlen-phase-2"}},
      {"B5", "threads of the tokenizer", Optimization, "tokenizer_threads", {"tokenizer-threads"}},
      {"B6",
       "casts of the delta rule's inputs",
       Optimization,
       "bf16_guard",
       {"bf16-guard-overhead", "bf16-guard-report"}},
      {"B7",
       "kernel of attention, rows in multiples of 128",
       Optimization,
       "mla_attention",
       {"attention-lengths"}},
      {"B8",
       "forms of rotary positions",
       Optimization,
       "mla_inputs",
       {"rope-overhead", "rope-speed"}},
      {"B9",
       "router and experts of a mixture",
       Optimization,
       "moe_router",
       {"moe-router-cost", "moe-router-speed"}},
      {"B10", "one product for keys and values", Optimization, "projections", {"kv-product"}},
      {"B11",
       "a loader made anew for longer rows",
       Optimization,
       "loader_reshape",
       {"loader-reshape"}},
      {"B12", "update of averaged weights", Optimization, "update_pass", {"ema-update-speed"}},
      {"B13", "contiguous copies before attention", Optimization, "qkv_copies", {"contiguous"}},
      {"B14", "pattern of layers", Variants, "pattern.toml:rows_2048", {"layer-pattern"}},
      {"B15",
       "keys and values kept between steps of training",
       Arithmetic,
       "a training step reads each token once, so no key or value is computed twice",
       {}},
      {"B16",
       "muP and the grouping of its parameters",
       Arithmetic,
       "the trainer groups its parameters once, when it is built",
       {}},
      {"B17",
       "search for the phase of a step",
       Arithmetic,
       "a batch's phase follows from its number by one division: nothing is searched",
       {}},
      {"B18",
       "FP8 in the delta rule alone",
       Variants,
       "fp8-delta.toml:fp8_delta",
       {"fp8-delta-memory"}},
      {"B19",
       "norm of queries and keys in one kernel",
       Optimization,
       "delta_inputs",
       {"delta-norm"}},
      {"B20",
       "projection, convolution and norm in one kernel",
       Optimization,
       "delta_inputs",
       {"delta-projection"}},
      {"B21", "values padded to the keys' width", Optimization, "mla_attention", {"value-padding"}},
      {"B22", "batches that the loader runs ahead", Optimization, "prefetch", {}},
      {"B23", "norm and linear", Optimization, "norms", {}},
      {"X1", "dense mask or causal kernel", Optimization, "varlen", {}},
      {"X2",
       "silent fallback of a kernel",
       Command,
       "assay report: the line `ran` and the alarm `fallback`",
       {}},
      {"X3", "document borders at row ends", Optimization, "varlen", {}},
      {"X4", "states that leak between documents", Optimization, "varlen", {}},
      {"X5", "all-reduce in every micro-step", Optimization, "ddp_accumulate", {}},
      {"X6", "weights cast in every forward pass", Optimization, "weights16", {}},
      {"X7", "a loss that the host reads", Optimization, "loss_read", {}},
      {"X8", "all logits at once", Optimization, "loss_head", {}},
      {"X9", "width of heads", Command, "assay plan: its note on head widths", {}},
      {"X10", "clipping that the host waits for", Optimization, "clip_read", {}},
      {"X11", "Muon's iterations", Optimization, "muon_form", {}},
      {"X12", "a loop over parameters in the optimizer", Optimization, "update_pass", {}},
      {"X13", "the step as one CUDA graph", Optimization, "step_graph", {}},
      {"X14", "norm and SwiGLU in a kernel each", Optimization, "ffn_gate", {}},
      {"E1",
       "FP8 against bf16",
       Optimization,
       "fp8",
       {"fp8-memory",
        "fp8-throughput",
        "fp8-report-memory",
        "fp8-report-throughput",
        "fp8-report-total-memory"}},
      {"E2",
       "the phases of a plan, and their sum",
       Variants,
       "ladder.toml:phases",
       {"ladder-attention",
        "ladder-phase-1",
        "ladder-phase-2",
        "ladder-phase-3",
        "ladder-report-phase-1",
        "ladder-report-total",
        "ladder-report-conclusion"}},
      {"E3", "1 to 8 ranks", Variants, "ranks.toml:scaling", {}},
      {"E4", "parameters and optimizer sharded over ranks", Optimization, "sharding", {}},
      {"E5",
       "memory by phase and module",
       Command,
       "assay report: its memory by phase and module",
       {}},
      {"E6", "padding of rows", Variants, "packing.toml:rows_2048", {}},
      {"E7", "log of a training", Command, "assay train: train.csv and monitor.csv", {}},
      {"E8", "random tokens in place of text", Optimization, "data_source", {}},
      {"E9", "the production model of 1 B parameters", Variants, "moe.toml:muon", {}},
      {"E10",
       "occupancy and memory bandwidth of kernels",
       Missing,
       "no hardware counters are read yet",
       {}},
      {"E11", "perplexity and samples", Command, "assay evaluate, assay generate", {}},
      {"E12", "usable length of context", Command, "assay needle test", {}},
      {"E13", "TF32", Variants, "tf32.toml:tf32", {}},
      {"E14",
       "attention by CUDA Tile",
       Arithmetic,
       "CUDA Tile needs compute capability 10.0: not on the boards that we measure on",
       {}},
      {"E15",
       "contradictions inside and between documents",
       Command,
       "assay claims: its arithmetic checks",
       {}},
      {"E16", "timeouts of collectives", Command, "assay claims: its arithmetic checks", {}},
  };
}

std::vector<SourceRow> nsa_rows() {
  return {
      {"N1",
       "ranges of selected blocks",
       Optimization,
       "nsa_ranges",
       {"nsa-ranges-vectorized", "nsa-ranges-kernel", "nsa-ranges-bottleneck"}},
      {"N2",
       "selected blocks straight to the kernel",
       Optimization,
       "nsa_ranges",
       {"nsa-ranges-direct"}},
      {"N3", "scores scattered pair by pair", Optimization, "nsa_overlap", {}},
      {"N4", "attention gathered token by token", Optimization, "nsa_form", {}},
      {"N5",
       "buckets, static graph, unused parameters",
       Optimization,
       "ddp_buckets",
       {"ddp-buckets-default", "ddp-buckets-larger", "ddp-static-graph", "ddp-find-unused"}},
      {"N6",
       "accumulation in place of a larger batch",
       Variants,
       "ranks.toml:accumulation",
       {"ddp-accumulate"}},
      {"N7", "branches one query after another", Optimization, "nsa_form", {}},
      {"N8", "statistics of the branches in every step", Optimization, "nsa_stats", {}},
      {"N9", "activation checkpointing", Optimization, "recompute", {}},
      {"N10", "ranges for profilers, on or off", Command, "bench_trace_cost", {}},
      {"N11", "algorithm of NCCL", Variants, "ranks.toml:nccl_algorithm", {}},
      {"N12", "two or four rows", Variants, "rows.toml:per_rank", {"batch-per-rank"}},
      {"N13", "compressed gradients", Optimization, "ddp_compress", {}},
      {"N14", "sparse against dense attention", Variants, "nsa-dense.toml:rows_2048", {}},
  };
}

std::vector<SourceRow> hydra_rows() {
  return {
      {"H1", "checkpoint every few layers", Optimization, "recompute", {}},
      {"H2", "cross entropy in chunks", Optimization, "loss_head", {}},
      {"H3", "one product for q, k and v", Optimization, "projections", {}},
      {"H4", "a compiled model", Optimization, "compile", {}},
      {"H5", "shared keys without copies", Optimization, "gqa", {}},
      {"H6", "dynamic routing", Optimization, "routing", {"hydra-routing"}},
      {"H7",
       "q and k made contiguous beforehand",
       Optimization,
       "qkv_copies",
       {"hydra-contiguous"}},
      {"H8", "shift of values", Variants, "hydra.toml:value_shift", {"hydra-value-shift"}},
      {"H9", "where copies come from", Command, "assay diagnose --copies", {}},
      {"H10", "static routing in a CUDA graph", Variants, "hydra.toml:graph", {}},
      {"H11", "cost of the first call", Command, "assay report: first step, under Measurement", {}},
      {"H12", "random tokens against text", Optimization, "data_source", {"hydra-synthetic"}},
      {"H13", "short convolutions of q and k", Optimization, "qk_conv", {}},
  };
}

std::vector<SourceRow> rwmba_rows() {
  return {
      {"V1", "larger batches", Variants, "rows.toml:doubled", {"rwmba-batch"}},
      {"V2", "loader processes and pinned memory", Optimization, "batch_copy", {"rwmba-workers"}},
      {"V3", "automatic mixed precision", Variants, "amp.toml:formats", {"rwmba-amp"}},
      {"V4", "a compiled model", Optimization, "compile", {"rwmba-compile"}},
      {"V5", "accumulation", Variants, "batch.toml:accumulation", {}},
      {"V6", "clocks", Command, "assay sql: sm_clock_mhz of every visit", {}},
      {"V7", "8-bit integers in inference", Optimization, "int8", {"rwmba-int8"}},
      {"V8", "recurrences token by token or in chunks", Optimization, "scan_form", {}},
      {"V9",
       "a timing that does not wait for the device",
       Variants,
       "planted-stages.toml:clock",
       {}},
      {"M1", "one monitor of the machine", Command, "assay top", {}},
      {"M2", "ratio of gradients of components", Command, "assay diagnose", {}},
      {"M3", "variance of activations", Command, "assay diagnose", {}},
      {"M4", "entropy of states", Command, "assay diagnose", {}},
      {"L1", "hidden facts, by length and depth", Command, "assay needle", {}},
      {"L2", "LongBench", Command, "assay answer", {}},
      {"L3", "InfiniteBench", Command, "assay answer", {}},
  };
}

std::vector<SourceRow> join(std::vector<std::vector<SourceRow>> parts) {
  std::vector<SourceRow> all;
  for (std::vector<SourceRow>& part : parts)
    for (SourceRow& row : part) all.push_back(std::move(row));
  return all;
}

} // namespace

const std::vector<SourceRow>& source_rows() {
  static const std::vector<SourceRow> rows =
      join({deltanet_rows(), nsa_rows(), hydra_rows(), rwmba_rows()});
  return rows;
}

} // namespace assay
