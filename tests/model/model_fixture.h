// Small configurations, ragged batches and random delta-rule inputs that the trainer's tests share.
// Fixed seeds.
#pragma once

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cstdint>
#include <vector>

#include "model/config/optimization.h"
#include "model/config/train_config.h"
#include "model/layout/chunk_layout.h"
#include "model/layout/positions.h"
#include "model/layout/segments.h"

namespace assay::testing_model {

// A three-layer model of about 10^5 parameters with two rows of 48 tokens.
inline TrainConfig small_config() {
  TrainConfig config;
  config.preset = "tiny";
  config.pattern = "GMG";
  config.d_model = 32;
  config.heads = 2;
  config.head_dim = 16;
  config.rope_dim = 8;
  config.kv_rank = 16;
  config.ffn_dim = 48;
  config.vocab_size = 61;
  config.chunk_size = 16;
  config.seq_len = 48;
  config.batch_rows = 2;
  config.steps = 100;
  config.warmup_steps = 2;
  config.lr = 3e-3;
  return value_or_throw(resolve(config));
}

// The same with four experts a layer, of which a token takes two.
inline TrainConfig small_moe() {
  TrainConfig config = small_config();
  config.preset = "moe-tiny";
  config.experts = 4;
  config.experts_taken = 2;
  config.expert_dim = 24;
  return value_or_throw(resolve(config));
}

// Two layers of native sparse attention, documents of several blocks; head width and selected
// blocks are the smallest that the CUDA kernels take.
inline TrainConfig small_nsa(NsaAttention attention = NsaAttention::Nsa) {
  TrainConfig config;
  config.family = "nsa";
  config.pattern = "NN";
  config.d_model = 32;
  config.head_dim = 64;
  config.ffn_dim = 48;
  config.vocab_size = 61;
  config.seq_len = 96;
  config.nsa_block = 8;
  config.nsa_stride = 4;
  config.nsa_select_block = 16;
  config.nsa_select_count = 3;
  config.nsa_window = 6;
  config.nsa_attention = attention;
  config.steps = 100;
  config.warmup_steps = 2;
  return value_or_throw(resolve(config));
}

// Two layers of family `gpt`, documents as in ragged_batch().
inline TrainConfig small_gpt() {
  TrainConfig config;
  config.family = "gpt";
  config.pattern = "AA";
  config.d_model = 32;
  config.heads = 2;
  config.head_dim = 16;
  config.ffn_dim = 64;
  config.vocab_size = 61;
  config.seq_len = 48;
  config.positions = 48;
  config.batch_rows = 2;
  config.steps = 100;
  config.warmup_steps = 2;
  config.lr = 3e-3;
  return value_or_throw(resolve(config));
}

// Two layers of family `rwmba`, documents as in ragged_batch().
inline TrainConfig small_rwmba() {
  TrainConfig config;
  config.family = "rwmba";
  config.pattern = "PP";
  config.d_model = 32;
  config.heads = 2;
  config.head_dim = 16;
  config.state_dim = 8;
  config.mix_rank = 8;
  config.ffn_dim = 64;
  config.vocab_size = 61;
  config.chunk_size = 16;
  config.seq_len = 48;
  config.batch_rows = 2;
  config.steps = 100;
  config.warmup_steps = 2;
  config.lr = 3e-3;
  return value_or_throw(resolve(config));
}

// Three layers of family `hydra`, the second with three quarters of the tokens; documents as in
// ragged_batch().
inline TrainConfig small_hydra() {
  TrainConfig config;
  config.family = "hydra";
  config.pattern = "CCC";
  config.d_model = 32;
  config.heads = 4;
  config.head_dim = 8;
  config.kv_groups = 2;
  config.recursions = 3;
  config.mod_percent = 75;
  config.ffn_dim = 48;
  config.vocab_size = 61;
  config.seq_len = 48;
  config.batch_rows = 2;
  config.steps = 100;
  config.warmup_steps = 2;
  config.lr = 3e-3;
  return value_or_throw(resolve(config));
}

// A model that has what the row switches.
inline TrainConfig small_config_for(const Optimization& row) {
  TrainConfig config = row.family == "nsa"     ? small_nsa()
                       : row.family == "gpt"   ? small_gpt()
                       : row.family == "rwmba" ? small_rwmba()
                       : row.family == "hydra" ? small_hydra()
                                               : small_config();
  if (row.name == "epilogue") {
    config.ffn_gate = FfnGate::Fused;
    config.weights16 = Weights16::Kept;
    config.precision = Precision::Bf16;
  }
  if (row.name == "moe_router") config = small_moe();
  if (row.name == "gqa") config = small_nsa(NsaAttention::Dense);
  if (row.name == "nsa_form") { // a block to choose beside the three that every query has
    config.nsa_select_block = 4;
    config.nsa_select_count = 4;
  }
  if (row.name == "product_choice") config.weights16 = Weights16::Kept;
  if (row.name == "weights16" || row.name == "residual16" || row.name == "product_choice")
    config.precision = Precision::Bf16;
  if (row.name == "muon_form") config.optimizer = OptimizerKind::Muon;
  if (row.name == "residual16") config.norms = Norms::Fused;
  return config;
}

// A prepared batch of random tokens whose documents end at `borders` besides the row ends.
inline Batch
random_batch(const TrainConfig& config, std::uint64_t seed, std::vector<std::int32_t> borders) {
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const auto draw = [&] {
    return at::empty({config.batch_rows, config.seq_len}, at::kLong)
        .random_(0, config.vocab_size, generator);
  };
  const at::Tensor tokens = draw();
  Batch batch = make_batch(tokens, draw(), std::move(borders));
  prepare(batch, config);
  return batch;
}

// Documents of 1, 12, 20 and 15 tokens, then 17, 1 and 30.
inline Batch ragged_batch(const TrainConfig& config, std::uint64_t seed = 3) {
  return random_batch(config, seed, {1, 13, 33, 65, 66});
}

inline std::vector<Batch> ragged_batches(const TrainConfig& config, int count) {
  std::vector<Batch> batches;
  for (int i = 0; i < count; ++i)
    batches.push_back(ragged_batch(config, static_cast<std::uint64_t>(10 + i)));
  return batches;
}

struct DeltaInputs {
  at::Tensor q, k, v, g, beta;
};

// Normalized q and k, log decays scaled by `decay` (0: none; large: the state is forgotten at
// once).
inline DeltaInputs random_delta_inputs(std::int64_t tokens,
                                       std::int64_t heads,
                                       std::int64_t key_width,
                                       std::int64_t value_width,
                                       std::uint64_t seed,
                                       double decay = 1.0) {
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const auto normal = [&](at::IntArrayRef shape) {
    return at::empty(shape, at::kDouble).normal_(0, 1, generator);
  };
  DeltaInputs in;
  in.q = normal({tokens, heads, key_width});
  in.k = normal({tokens, heads, key_width});
  in.q = in.q / in.q.norm(2, {2}, true);
  in.k = in.k / in.k.norm(2, {2}, true);
  in.v = normal({tokens, heads, value_width});
  in.g = at::softplus(normal({tokens, heads})).mul(-decay);
  in.beta = normal({tokens, heads}).sigmoid();
  return in;
}

inline Segments
make_segments(std::vector<std::int32_t> cu, std::int64_t heads, std::int64_t chunk) {
  TrainConfig config = small_config();
  config.heads = heads;
  config.chunk_size = chunk;
  Segments segments = segments_of(std::move(cu), at::kCPU);
  segments.chunks = std::make_shared<const ChunkLayout>(make_chunk_layout(segments, config));
  segments.rotary = std::make_shared<const Rotary>(make_rotary(segments, config.rope_dim));
  segments.causal_mask = make_causal_mask(segments.cu_host, at::kCPU);
  return segments;
}

} // namespace assay::testing_model
