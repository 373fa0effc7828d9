// What one optimizer step costs: FLOPs, bytes and kernel launches of its operations, by arithmetic
// on shapes (docs/model.md, "Cost"). The shape structs hold nothing but sizes, so that a family is
// costed without being built.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "core/statistics/roofline.h"
#include "model/config/model_form.h"
#include "model/config/train_config.h"

namespace assay {

// Gated DeltaNet: chunked gated delta rule behind a short convolution.
struct DeltaShape {
  std::int64_t heads = 0, head_dim = 0, chunk = 0;
  std::int64_t scan_steps = 0; // chunks of the longest segment: they follow one another
  bool fused_inputs = false;   // delta_inputs = fused
  bool fused_rule = false;     // delta_form = fused: 16-bit operands
};

// Multi-head latent attention, not absorbed.
struct LatentShape {
  std::int64_t heads = 0, head_dim = 0, rope_dim = 0, kv_rank = 0;
  double keys = 0; // that a query reads, mean: (L + 1) / 2 of causal segments of L tokens
  MlaInputs inputs = MlaInputs::Ops;
  MlaAttention attention = MlaAttention::FlashPadded;
  bool documents = false; // they are the segments, not the rows
};

// Attention of `heads` query heads over `groups` key and value heads.
struct GroupedShape {
  std::int64_t heads = 0, groups = 0, head_dim = 0;
  std::int64_t branches = 1; // each with keys and values of its own: NSA 3, its dense twin 1
  std::int64_t gate_dim = 0; // hidden width of the MLP that mixes the branches, a group; 0: none
  double keys = 0;           // that a query reads in all branches, mean
  double scored_keys = 0; // whose scores are computed once more, to select: NSA's compressed ones
  std::int64_t launches = 0; // of the attention itself, forward and backward; 0: not counted
  std::int64_t taps = 0;     // of two convolutions of q and of k, within heads and of all; 0: none
};

// Causal attention whose heads have keys and values of their own, from one product of q, k and v.
struct CausalShape {
  std::int64_t heads = 0, head_dim = 0;
  double keys = 0; // that a query reads, mean
  MlaAttention attention = MlaAttention::FlashPadded;
  bool documents = false; // they are the segments, not the rows
};

// RWKV-6 (mix_rank > 0), Mamba-2 (state_dim > 0), or both side by side, in chunks.
struct ScanShape {
  std::int64_t heads = 0, chunk = 0;
  std::int64_t head_dim = 0; // of RWKV-6
  std::int64_t mix_rank = 0;
  std::int64_t value_dim = 0; // of a head of Mamba-2
  std::int64_t state_dim = 0;
};

struct StepShape {
  std::int64_t tokens = 0; // of a micro-batch
  std::int64_t micro_batches = 1;
  std::int64_t d_model = 0, vocab_size = 0, ffn_dim = 0;
  std::int64_t experts = 0, experts_taken = 0, expert_dim = 0; // beside each feed-forward; 0: none
  ModelForm form;
  std::int64_t parameters = 0;    // all that the optimizer updates, fp32
  std::int64_t compute_bytes = 2; // of an element in matrix products and attention: 4 or 2
  bool fp8_linears = false;       // all linears but the head multiply in FP8 where `in` % 16 == 0
  bool fp8_delta_alone = false;   // of them those of the delta rule alone (fp8_layers = delta)
  bool fp8_delayed = false;       // scales of their inputs and gradients come from earlier steps
  std::int64_t loss_chunks = 0;   // of tokens, in which head and loss run; 0: all tokens at once
  bool fused_norms = false;       // norms = fused: what they write for products is in 16 bits
  bool fused_gate = false;        // ffn_gate = fused
  std::int64_t stream_bytes = 4;  // of an element of the residual stream: 4, or 2 (residual = bf16)
  bool kept_weights = false;      // products take 16-bit copies of weights, which the update writes
  bool untraced_form = false; // projections = split, qkv_copies or recompute_every: launches are
                              // not counted
  bool clip_on_host = false;  // gradients are scaled only where their norm exceeds the limit
  UpdatePass update_pass = UpdatePass::Foreach; // one_pass: EMA's bytes are the optimizer's
  bool muon = false;                            // updates the matrices of layers
  bool ema = true;
  Epilogue epilogue = Epilogue::None; // where GELU is; none without it
  // step_graph = on: what the host launches in a step, whose kernels are nodes of one graph; 0:
  // off.
  std::int64_t graph_launches = 0;
  using Layer = std::variant<DeltaShape, LatentShape, GroupedShape, CausalShape, ScanShape>;
  std::vector<Layer> layers;
  // Of a layer: how often a token passes through its feed-forward, mean. Empty: once everywhere.
  std::vector<double> feed_forward_passes;
};

// Operations of the whole step, forward, backward and update, layers of a kind together. FLOPs of
// training are 3 times the forward pass's; so are bytes: the backward pass of y = f(x) reads x, y
// and dy and writes dx.
std::vector<OpCost> step_cost(const StepShape& shape);

// Of a resolved configuration of any family. The launches of family `rwmba` lack those of its
// layers, those of family `hydra` its attention's, convolutions' and routing's; the launches of
// family `nsa` in fp32 or in a form of operators, and of mla_attention = math, lack those of their
// attention, those of products that sum (epilogue = gelu_bias or all) lack what cuBLASLt launches
// for the sum, those of optimizer = muon lack Muon's, those of a mixture of experts its routers'
// and experts': take them from a trace. `longest_segment`: tokens of the longest document of a row;
// 0: the whole row. Attention is costed over causal rows: documents that do not see each other read
// fewer keys, a dense mask makes the kernel read twice as many.
StepShape step_shape(const TrainConfig& config, std::int64_t longest_segment = 0);

// Whether the operations' launches are all of the step's.
bool counts_all_launches(const StepShape& shape);

} // namespace assay
