#include "model/config/cost/step_cost.h"

#include <algorithm>
#include <cmath>

#include "core/result.h"
#include "model/config/cost/costs.h"

namespace assay {

using namespace step_costs;

namespace {

constexpr double kMuonSteps = 5;

// Of a layer, but for what cuBLAS splits.
std::int64_t delta_launches(const StepShape& shape, const DeltaShape& layer) {
  const std::int64_t rule =
      kDeltaLaunches - kInputLaunches - kGatedNormLaunches - 2 * kProductLaunches;
  return 2 * kProductLaunches + (layer.fused_inputs ? kFusedInputLaunches : kInputLaunches) +
         (shape.fused_norms ? kNormLaunches : kGatedNormLaunches) +
         (layer.fused_rule ? kFusedRuleLaunches : rule + kScanLaunches * layer.scan_steps);
}

void add_layer(Costs& costs, const StepShape& shape, const DeltaShape& layer) {
  const std::int64_t inner = layer.heads * layer.head_dim;
  const auto tokens = static_cast<double>(shape.tokens), heads = static_cast<double>(layer.heads),
             chunk = static_cast<double>(layer.chunk), width = static_cast<double>(layer.head_dim),
             e = static_cast<double>(shape.compute_bytes), lanes = static_cast<double>(inner);
  const bool fused = shape.fused_norms;
  costs.linear("projections",
               shape.d_model,
               4 * inner + 2 * layer.heads, // q k v gate | a b
               {.wide = !fused, .x_largest = fused, .x_written = fused});
  costs.linear("projections",
               inner,
               shape.d_model,
               {.wide = !fused,
                .x_largest = fused,
                .dy_largest = fused && !shape.fp8_delta_alone, // by the norm before another layer
                .x_written = fused});
  // Convolution, SiLU and norm of q, k, v; then norm(o) * silu(gate).
  costs.stream("delta inputs", 3 * lanes, 3 * lanes, e, 0);
  costs.stream("delta gate", 2 * lanes, lanes, e, 0);
  // Chunked rule, a token and head, forward, with K = V: three products of 2CK and two of 2CV
  // inside the chunk, of which a triangular mask keeps (C + 1) / 2 per token, as in causal
  // attention; three of 2KV with the state; the triangular inverse, 2C^2/3.
  const double rule = 2 * (5 * (chunk + 1) / 2 * width + 3 * width * width + chunk * chunk / 3);
  costs.add("delta rule",
            kTraining * tokens * heads * rule,
            kTraining * tokens * // q k v o | g beta
                (4 * lanes * (layer.fused_rule ? e : kWide) + 2 * heads * kWide),
            delta_launches(shape, layer),
            layer.fused_rule ? Peak::Compute : Peak::Fp32);
}

std::int64_t latent_input_launches(MlaInputs form) {
  switch (form) {
  case MlaInputs::Ops:
    return kLatentInputLaunches;
  case MlaInputs::RotaryTranspose:
    return kLatentInputLaunches - kRotaryLaunches + kTransposeLaunches;
  case MlaInputs::RotaryComplex:
    return kLatentInputLaunches - kRotaryLaunches + kComplexLaunches;
  case MlaInputs::Fused:
    return kFusedLatentLaunches + 4 * kProductLaunches -
           (kLatentLaunches - kLatentInputLaunches - kPaddedLaunches);
  }
  internal_error("unknown form of the inputs of latent attention");
}

// Those of MlaAttention::Math depend on the borders of the batch and are not counted. `padded`: of
// the reference.
std::int64_t attention_launches(MlaAttention attention, bool documents, std::int64_t padded) {
  switch (attention) {
  case MlaAttention::Cudnn:
    return kCudnnLaunches + (documents ? kRaggedLaunches : 0);
  case MlaAttention::Efficient:
    return kEfficientLaunches;
  case MlaAttention::Math:
    return 0;
  case MlaAttention::FlashPadded:
    return padded;
  }
  internal_error("unknown kernel of attention");
}

void add_layer(Costs& costs, const StepShape& shape, const LatentShape& layer) {
  const std::int64_t query = layer.heads * (layer.head_dim + layer.rope_dim),
                     inner = layer.heads * layer.head_dim;
  const auto tokens = static_cast<double>(shape.tokens), wide = static_cast<double>(query),
             value = static_cast<double>(inner), e = static_cast<double>(shape.compute_bytes);
  const bool fused = shape.fused_norms;
  costs.linear("projections",
               shape.d_model,
               query,
               {.wide = !fused, .x_largest = fused, .x_written = fused});
  costs.linear("projections",
               shape.d_model,
               layer.kv_rank + layer.rope_dim,
               {.wide = !fused, .shared = true});
  costs.linear("projections", layer.kv_rank, 2 * inner, {.wide = layer.inputs != MlaInputs::Fused});
  costs.linear("projections", inner, shape.d_model, {.dy_largest = fused});
  costs.stream("rotary", 2 * wide, 2 * wide, e, 0); // q and k
  costs.add("attention",
            kTraining * tokens * 2 * (wide + value) * layer.keys,
            kTraining * tokens * (2 * wide + 2 * value) * e, // q k | v o
            kLatentLaunches - kLatentInputLaunches - kPaddedLaunches +
                latent_input_launches(layer.inputs) +
                attention_launches(layer.attention, layer.documents, kPaddedLaunches));
}

void add_layer(Costs& costs, const StepShape& shape, const GroupedShape& layer) {
  const std::int64_t inner = layer.heads * layer.head_dim, shared = layer.groups * layer.head_dim;
  const auto tokens = static_cast<double>(shape.tokens), lanes = static_cast<double>(inner),
             branches = static_cast<double>(layer.branches), keys = static_cast<double>(shared),
             e = static_cast<double>(shape.compute_bytes);
  const std::int64_t first = inner + 2 * layer.branches * shared; // q | k v …
  const bool fused = shape.fused_norms;
  costs.linear("projections", shape.d_model, first, {.wide = !fused, .x_largest = fused});
  costs.linear("projections", inner, shape.d_model, {.wide = true, .dy_largest = fused});
  costs.stream("rotary", lanes + branches * keys, lanes + branches * keys, e, 0);
  if (layer.taps > 0) {
    // A product of `taps` tokens each: heads alone, then all heads, of q and of k.
    const double width = static_cast<double>(layer.head_dim),
                 taps = static_cast<double>(layer.taps);
    costs.add("convolutions",
              kTraining * 2 * tokens * taps * (lanes * (width + lanes) + keys * (width + keys)),
              kTraining * tokens * 2 * (taps + 1) * (lanes + keys) * e,
              0);
  }
  // q and k d wide, v d wide: 2 H (dk + dv) per key. A score that only selects takes 2 H dk,
  // forward alone: no gradient passes through the choice.
  costs.add("attention",
            tokens * (kTraining * 4 * lanes * layer.keys + 2 * lanes * layer.scored_keys),
            kTraining * tokens * (2 * lanes + 2 * branches * keys) * e, // q o | k v of each branch
            kProductLaunches * 2 + layer.launches);
  if (layer.gate_dim == 0) return;
  const auto gate = static_cast<double>(layer.gate_dim * layer.groups);
  costs.add("gates",
            kTraining * tokens * 2 * gate * (static_cast<double>(layer.head_dim) + branches),
            kTraining * tokens * ((1 + branches) * lanes + keys) * e, // mean q; o of each branch
            0);
}

void add_layer(Costs& costs, const StepShape& shape, const CausalShape& layer) {
  const std::int64_t inner = layer.heads * layer.head_dim;
  const auto tokens = static_cast<double>(shape.tokens), lanes = static_cast<double>(inner),
             e = static_cast<double>(shape.compute_bytes);
  const bool fused = shape.fused_norms;
  costs.linear("projections", shape.d_model, 3 * inner, {.wide = !fused, .x_largest = fused});
  costs.bias("projections", 3 * inner);
  costs.linear("projections", inner, shape.d_model, {.dy_largest = fused});
  costs.bias("projections", shape.d_model);
  costs.add("attention",
            kTraining * tokens * 4 * lanes * layer.keys,
            kTraining * tokens * 4 * lanes * e, // q k v o
            2 * kProductLaunches + (layer.attention == MlaAttention::Cudnn ? 0 : kJoinLaunches) +
                attention_launches(layer.attention,
                                   layer.documents,
                                   shape.compute_bytes == 4 ? kEfficientLaunches : kFlashLaunches));
}

// Norms of the residual stream, and sums of it before them. As operators a norm reads and writes,
// a sum reads two and writes; backward twice that. Fused, forward: stream and branch, sum and
// normed row; backward: stream, its gradient and the row's, and the gradient, also for products.
void add_norms(Costs& costs, const StepShape& shape, std::int64_t norms, std::int64_t sums) {
  const auto elements = static_cast<double>(shape.tokens * shape.d_model),
             r = static_cast<double>(shape.stream_bytes),
             e = static_cast<double>(shape.compute_bytes);
  const double fused = 5 * r + 3 * e + (r == e ? 0 : e);
  costs.add("norms and residuals",
            0,
            elements * (shape.fused_norms ? static_cast<double>(norms) * fused
                                          : static_cast<double>(norms + sums) * 6 * kWide),
            norms * kNormLaunches + (shape.fused_norms ? 0 : sums * kSumLaunches));
}

// Bias and GELU inside the products: what GELU takes is written beside its result, and read beside
// the gradient. The bias is rounded for its use, and its gradient widened where a product sums it.
void add_gelu_epilogue(Costs& costs, const StepShape& shape) {
  const bool half = shape.compute_bytes != 4, summed = shape.epilogue != Epilogue::Gelu;
  const auto values = static_cast<double>(shape.tokens * shape.ffn_dim * shape.compute_bytes);
  const std::int64_t sum = half ? kKeptBiasLaunches : kBiasLaunches;
  costs.add(
      "feed forward gate", 0, (summed ? 2 : 3) * values, 2 * kProductLaunches + (summed ? 0 : sum));
  if (half) costs.add("casts", 0, 0, summed ? kCastLaunches : 1);
}

// A scan in chunks, a token and head, forward: a pair of tokens costs a product over keys and one
// over values, of which a triangular mask keeps (C + 1) / 2 a token; the state is read and written.
double scan_flops(std::int64_t keys, std::int64_t values, std::int64_t chunk) {
  const auto k = static_cast<double>(keys), v = static_cast<double>(values),
             pairs = static_cast<double>(chunk + 1) / 2;
  return 2 * (pairs * (k + v) + 2 * k * v);
}

void add_rwkv(Costs& costs, const StepShape& shape, const ScanShape& layer) {
  const std::int64_t inner = layer.heads * layer.head_dim;
  const auto tokens = static_cast<double>(shape.tokens), lanes = static_cast<double>(inner),
             width = static_cast<double>(shape.d_model), heads = static_cast<double>(layer.heads);
  for (int i = 0; i < 4; ++i)
    costs.linear("projections", shape.d_model, inner, {.wide = true}); // r k v g
  costs.linear("projections", inner, shape.d_model, {.wide = true});
  costs.linear("mixes", shape.d_model, 5 * layer.mix_rank, {.wide = true});
  costs.add(
      "mixes", kTraining * 2 * tokens * 5 * static_cast<double>(layer.mix_rank) * width, 0, 0);
  costs.linear("mixes", shape.d_model, layer.mix_rank, {.wide = true});
  costs.linear("mixes", layer.mix_rank, inner, {.wide = true});
  costs.stream("mixes", 2 * width, 5 * width, kWide, 0);
  costs.stream("scan gate", 2 * lanes, lanes, kWide, 0);
  costs.add("scan",
            kTraining * tokens * heads * scan_flops(layer.head_dim, layer.head_dim, layer.chunk),
            kTraining * tokens * 5 * lanes * kWide, // r k v w | o
            0,
            Peak::Fp32);
}

void add_mamba(Costs& costs, const StepShape& shape, const ScanShape& layer) {
  const std::int64_t inner = layer.heads * layer.value_dim, states = 2 * layer.state_dim;
  const auto tokens = static_cast<double>(shape.tokens), lanes = static_cast<double>(inner),
             shared = static_cast<double>(states), heads = static_cast<double>(layer.heads);
  costs.linear("projections", shape.d_model, 2 * inner + states + layer.heads, {.wide = true});
  costs.linear("projections", inner, shape.d_model, {.wide = true});
  costs.stream("scan inputs", lanes + shared, lanes + shared, kWide, 0);
  costs.stream("scan gate", 2 * lanes, lanes, kWide, 0);
  costs.add("scan",
            kTraining * tokens * heads * scan_flops(layer.state_dim, layer.value_dim, layer.chunk),
            kTraining * tokens * (2 * lanes + shared + heads) * kWide, // x b c a | y
            0,
            Peak::Fp32);
}

void add_layer(Costs& costs, const StepShape& shape, const ScanShape& layer) {
  if (layer.mix_rank > 0) add_rwkv(costs, shape, layer);
  if (layer.state_dim > 0) add_mamba(costs, shape, layer);
}

std::int64_t gate_launches(const StepShape& shape) {
  const bool gelu = shape.form.feed_forward == FeedForward::Gelu;
  if (shape.fused_gate)
    return 2 * kProductLaunches + (gelu ? kFusedGeluLaunches : kFusedGateLaunches);
  if (gelu) return 2 * kProductLaunches + kGeluLaunches;
  return shape.form.feed_forward == FeedForward::Silu ? 2 * kProductLaunches + kSiluLaunches
                                                      : kFeedForwardLaunches;
}

void add_feed_forward(Costs& costs, const StepShape& shape) {
  const std::int64_t halves = ffn_matrices(shape.form.feed_forward) - 1,
                     inner = halves * shape.ffn_dim;
  const bool fused = shape.fused_norms,
             gate = shape.fused_gate && shape.form.feed_forward == FeedForward::SwiGlu;
  costs.linear("feed forward",
               shape.d_model,
               inner,
               {.wide = !fused,
                .x_largest = fused,
                .dy_largest = gate,
                .x_written = fused && !shape.form.layer_norm,
                .dy_written = gate});
  costs.linear("feed forward",
               shape.ffn_dim,
               shape.d_model,
               {.x_largest = gate, .dy_largest = fused, .x_written = gate});
  costs.bias("feed forward", shape.d_model);
  if (shape.epilogue != Epilogue::None) return add_gelu_epilogue(costs, shape);
  if (!shape.fused_gate) costs.bias("feed forward", inner); // else GELU's kernels take it
  const auto hidden = static_cast<double>(shape.ffn_dim);
  costs.stream("feed forward gate",
               static_cast<double>(halves) * hidden,
               hidden,
               static_cast<double>(shape.compute_bytes),
               gate_launches(shape));
}

// A router in fp32, and of every token the experts that it takes. A micro-batch reads all of them.
void add_experts(Costs& costs, const StepShape& shape) {
  if (shape.experts == 0) return;
  const auto tokens = static_cast<double>(shape.tokens), width = static_cast<double>(shape.d_model),
             hidden = static_cast<double>(shape.expert_dim),
             experts = static_cast<double>(shape.experts),
             e = static_cast<double>(shape.compute_bytes),
             rows = tokens * static_cast<double>(shape.experts_taken);
  costs.add("router",
            kTraining * 2 * tokens * width * experts,
            kTraining * kWide * tokens * (width + experts),
            0,
            Peak::Fp32);
  // Of a row x, gate and value, their product, and y.
  costs.add("experts",
            kTraining * 2 * rows * 3 * width * hidden,
            kTraining * e * (rows * (2 * width + 6 * hidden) + experts * 3 * width * hidden),
            0);
  costs.stacked_weights(shape.experts, shape.d_model, 2 * shape.expert_dim);
  costs.stacked_weights(shape.experts, shape.expert_dim, shape.d_model);
}

// A feed-forward that is applied `passes` times, of which every one has a norm and a sum. Its
// weights are counted as if all tokens came at once.
void add_repeated_feed_forward(Costs& costs, const StepShape& shape, double passes) {
  StepShape repeated = shape;
  repeated.tokens = std::llround(passes * static_cast<double>(shape.tokens));
  Costs of_tokens(repeated);
  add_feed_forward(of_tokens, repeated);
  add_norms(of_tokens, repeated, 1, 1);
  costs.take_all_of(of_tokens);
}

void add_layers(Costs& costs, const StepShape& shape) {
  for (std::size_t i = 0; i < shape.layers.size(); ++i) {
    const StepShape::Layer& layer = shape.layers[i];
    costs.of_delta_rule(std::holds_alternative<DeltaShape>(layer));
    std::visit([&](const auto& mixer) { add_layer(costs, shape, mixer); }, layer);
    costs.of_delta_rule(false);
    if (shape.feed_forward_passes.empty()) {
      add_feed_forward(costs, shape);
      add_experts(costs, shape);
      add_norms(costs, shape, 2, 2);
    } else {
      add_norms(costs, shape, 1, 1);
      add_repeated_feed_forward(costs, shape, shape.feed_forward_passes[i]);
    }
  }
}

// Head and loss in chunks: the weight is read in two products a chunk; its gradient is written by
// the first chunk, and read and written in fp32 by the others. Logits are written, become their
// gradient in place, and are read by two products.
void add_chunked_head(Costs& costs, const StepShape& shape) {
  const auto tokens = static_cast<double>(shape.tokens), k = static_cast<double>(shape.d_model),
             n = static_cast<double>(shape.vocab_size),
             e = static_cast<double>(shape.compute_bytes),
             chunks = static_cast<double>(shape.loss_chunks);
  const bool half = shape.compute_bytes != 4;
  costs.add("head",
            kTraining * 2 * tokens * k * n,
            3 * e * tokens * (k + n) + (2 * e * chunks + 4 * (2 * chunks - 1)) * k * n,
            kProductLaunches * shape.loss_chunks);
  costs.add("loss",
            0,
            2 * tokens * n * e,
            ((half ? kChunkLaunches : kPlainChunkLaunches) - kProductLaunches) * shape.loss_chunks +
                kChunkedLossLaunches);
  if (!half) return;
  const bool kept = shape.kept_weights, wide = !shape.fused_norms;
  costs.add("casts",
            0,
            (4 + e) * ((kept ? 0 : k * n) + (wide ? 2 * tokens * k : 0)),
            (kept ? 0 : 1) + (wide ? kCastLaunches : 0));
  costs.keep(shape.d_model * shape.vocab_size);
}

// Tables of tokens and of positions, whose rows are gathered and added, and the sum of the two
// gradients of a table that is the head too.
void add_embedding(Costs& costs, const StepShape& shape) {
  const auto width = static_cast<double>(shape.d_model);
  const std::int64_t gathers =
      shape.tokens > kFewTokens ? kEmbeddingLaunches : kFewEmbeddingLaunches;
  costs.stream("embedding", width, width, kWide, gathers);
  if (shape.form.positions) {
    costs.stream("embedding", width, width, kWide, gathers);
    costs.add("embedding", 0, 3 * kWide * static_cast<double>(shape.tokens) * width, 1);
  }
  if (shape.form.tied_head)
    costs.add("embedding", 0, 3 * kWide * static_cast<double>(shape.vocab_size) * width, 1);
  if (shape.stream_bytes != 4)
    costs.add("embedding", 0, static_cast<double>(shape.tokens) * 2 * 6 * width, kStreamCasts);
}

void add_ends(Costs& costs, const StepShape& shape) {
  const auto vocabulary = static_cast<double>(shape.vocab_size),
             e = static_cast<double>(shape.compute_bytes);
  add_embedding(costs, shape);
  add_norms(costs, shape, 1, 0);
  if (shape.loss_chunks > 0) return add_chunked_head(costs, shape);
  costs.plain_linear("head", shape.d_model, shape.vocab_size, !shape.fused_norms);
  costs.add("head", 0, 0, kHeadLaunches);
  // Logits read forward; read and overwritten by their gradient backward.
  costs.add("loss", 0, 3 * static_cast<double>(shape.tokens) * vocabulary * e, kLossLaunches);
}

// Five steps of X <- a X + (b A + c A A) X, A = X X^T, on matrices of n by m elements, m <= n;
// momentum, gradient and weight are read, momentum and weight written. Returns the elements.
double add_muon(Costs& costs, const StepShape& shape, const std::vector<Matrix>& matrices) {
  double elements = 0;
  for (const auto& [in, out] : matrices) {
    const auto n = static_cast<double>(std::max(in, out)),
               m = static_cast<double>(std::min(in, out)),
               e = static_cast<double>(shape.compute_bytes);
    costs.add("muon",
              kMuonSteps * (4 * n * m * m + 2 * m * m * m),
              kMuonSteps * e * (4 * n * m + 5 * m * m) + 5 * kWide * n * m,
              0);
    elements += n * m;
  }
  return elements;
}

// `micro`: the operations of layers and ends.
void add_update(Costs& costs, const StepShape& shape, const Costs& micro) {
  const auto kept = static_cast<double>(micro.kept());
  const double of_muon = shape.muon ? add_muon(costs, shape, micro.matrices()) : 0;
  const auto parameters = static_cast<double>(shape.parameters);
  const std::int64_t pass = (shape.parameters + kPassElements - 1) / kPassElements;
  if (shape.update_pass == UpdatePass::OnePass) {
    const double each = kOnePassBytes + (shape.ema ? kOnePassEmaBytes : 0);
    costs.add("optimizer", 0, each * parameters + kOnePassCopyBytes * kept, kOnePassLaunches);
    return;
  }
  const bool operators = shape.update_pass == UpdatePass::PerParameter;
  costs.add("optimizer",
            0,
            kClipBytes * parameters +
                (operators ? kOperatorBytes : kAdamWBytes) * (parameters - of_muon),
            kUpdateLaunches + kUpdatePasses * pass);
  if (kept > 0) costs.add("optimizer", 0, kCopyBytes * kept, pass);
  if (shape.ema) costs.add("ema", 0, kEmaBytes * parameters, pass);
}

// The host launches the graph and what it reads, and no kernel of the step.
void take_launches(std::vector<OpCost>& ops, const StepShape& shape) {
  for (OpCost& op : ops) op.kernels = 0;
  const double bytes = 2 * 8 * 2 * static_cast<double>(shape.tokens * shape.micro_batches);
  ops.push_back({"graph", 0, bytes, shape.graph_launches, Peak::Compute}); // tokens and targets
}

} // namespace

std::vector<OpCost> step_cost(const StepShape& shape) {
  Costs micro(shape), step(shape);
  add_layers(micro, shape);
  add_ends(micro, shape);
  const auto repeats = static_cast<double>(shape.micro_batches);
  for (const OpCost& op : micro.take())
    step.add(
        op.name, repeats * op.flops, repeats * op.bytes, shape.micro_batches * op.kernels, op.peak);
  for (const OpCost& op : micro.take_once())
    step.add(op.name, op.flops, op.bytes, op.kernels, op.peak);
  add_update(step, shape, micro);
  std::vector<OpCost> ops = step.take();
  if (shape.graph_launches > 0) take_launches(ops, shape);
  return ops;
}

} // namespace assay
