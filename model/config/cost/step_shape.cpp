// The shape of a configuration's step, from its family's layers.
#include <algorithm>

#include "model/config/cost/step_cost.h"
#include "model/config/family_config.h"
#include "model/config/loss_chunk.h"

namespace assay {

namespace {

// With step_graph = on, from its code (model/graph): the learning rate, the replay and the copy of
// its results; of a micro-batch tokens and targets (model/layout/static_batch.cpp). Of documents
// their borders, chunks (two tables and a position), rotary angles and positions, as far as layers
// read them, and the blocks of native sparse attention (model/layout/static_nsa_layout.cpp: five
// copies, three tables, and the numbers of a token's blocks); the room behind a table is filled.
constexpr std::int64_t kGraphLaunches = 3, kGraphBatchLaunches = 2;
constexpr std::int64_t kGraphBorderLaunches = 2, kGraphChunkLaunches = 2 + 2 + 1,
                       kGraphRotaryLaunches = 3, kGraphPositionLaunches = 1,
                       kGraphBlockLaunches = 5 + 3 * 2 + 3;

std::int64_t graph_launches(const TrainConfig& c) {
  std::int64_t batch = kGraphBatchLaunches;
  if (c.attention == Attention::Varlen) {
    const Layouts layouts = layouts_of(c);
    batch += kGraphBorderLaunches + (layouts.chunks ? kGraphChunkLaunches : 0) +
             (layouts.rotary ? kGraphRotaryLaunches : 0) +
             (layouts.positions ? kGraphPositionLaunches : 0) +
             (layouts.blocks ? kGraphBlockLaunches : 0);
  }
  return kGraphLaunches + c.accumulate * batch;
}

} // namespace

StepShape step_shape(const TrainConfig& c, std::int64_t longest_segment) {
  const std::int64_t segment = longest_segment > 0 ? longest_segment : c.seq_len;
  StepShape shape;
  shape.tokens = c.seq_len * c.batch_rows;
  shape.micro_batches = c.accumulate;
  shape.d_model = c.d_model;
  shape.vocab_size = c.vocab_size;
  shape.ffn_dim = c.ffn_dim;
  shape.experts = c.experts;
  shape.experts_taken = c.experts_taken;
  shape.expert_dim = c.expert_dim;
  shape.parameters = model_size(c).parameters;
  shape.form = family_of(c).form;
  shape.compute_bytes = c.precision == Precision::Fp32 ? 4 : 2;
  shape.fp8_linears = c.precision == Precision::Fp8;
  shape.fp8_delta_alone = shape.fp8_linears && c.fp8_layers == Fp8Layers::Delta;
  shape.fp8_delayed = shape.fp8_linears && c.fp8_scaling == Fp8Scaling::Delayed;
  if (c.loss_chunk_mib > 0) {
    const std::int64_t chunk =
        loss_chunk_tokens(shape.tokens, c.vocab_size, c.loss_chunk_mib, shape.compute_bytes);
    shape.loss_chunks = (shape.tokens + chunk - 1) / chunk;
  }
  shape.fused_norms = c.norms == Norms::Fused;
  shape.fused_gate = c.ffn_gate == FfnGate::Fused && shape.form.feed_forward != FeedForward::Silu;
  if (shape.form.feed_forward == FeedForward::Gelu) shape.epilogue = c.epilogue;
  shape.stream_bytes = c.residual == Residual::Bf16 ? 2 : 4;
  shape.kept_weights = c.weights16 == Weights16::Kept;
  shape.update_pass = c.update_pass;
  shape.muon = c.optimizer == OptimizerKind::Muon;
  shape.untraced_form = c.projections == Projections::Split || c.qkv_copies != QkvCopies::None ||
                        c.recompute_every > 0;
  shape.clip_on_host = c.clip_read == ClipRead::Host && c.update_pass != UpdatePass::OnePass;
  shape.ema = c.ema_decay > 0;
  if (c.step_graph == StepGraph::On) shape.graph_launches = graph_launches(c);
  for (const char letter : c.pattern)
    shape.layers.push_back(layer_kind(c, letter).cost(c, segment));
  if (family_of(c).feed_forward_passes != nullptr)
    for (std::size_t i = 0; i < c.pattern.size(); ++i)
      shape.feed_forward_passes.push_back(feed_forward_passes(c, i));
  return shape;
}

bool counts_all_launches(const StepShape& shape) {
  if (shape.update_pass == UpdatePass::PerParameter) return false; // they follow its tensors
  if (shape.clip_on_host) return false;                            // launches follow the norm
  if (shape.untraced_form || shape.muon || shape.experts > 0) return false;
  // What cuBLASLt launches for a sum was not traced.
  if (shape.epilogue == Epilogue::GeluBias || shape.epilogue == Epilogue::All) return false;
  return std::none_of(shape.layers.begin(), shape.layers.end(), [](const StepShape::Layer& layer) {
    const auto* grouped = std::get_if<GroupedShape>(&layer);
    const auto* latent = std::get_if<LatentShape>(&layer);
    const auto* causal = std::get_if<CausalShape>(&layer);
    return std::holds_alternative<ScanShape>(layer) || // not traced
           (grouped != nullptr && grouped->launches == 0) ||
           (latent != nullptr && latent->attention == MlaAttention::Math) ||
           (causal != nullptr && causal->attention == MlaAttention::Math);
  });
}

} // namespace assay
