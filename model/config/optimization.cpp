#include "model/config/optimization.h"

#include <nlohmann/json.hpp>

#include "model/config/step_graph.h"

namespace assay {

namespace {

// As kernels/delta_rule/delta_rule.h, whose headers need CUDA.
bool fits_kernels(std::int64_t head_dim) {
  return head_dim == 32 || head_dim == 64 || head_dim == 128;
}

// As kernels/attention/latent.h.
bool fits_latent_kernels(const TrainConfig& c) {
  const bool power_of_two = c.rope_dim > 0 && (c.rope_dim & (c.rope_dim - 1)) == 0;
  return c.head_dim % 8 == 0 && c.kv_rank % 8 == 0 && c.kv_rank <= 1024 && c.rope_dim >= 8 &&
         c.rope_dim <= 256 && power_of_two;
}

} // namespace

const Level* Optimization::level(std::string_view level_name) const {
  for (const Level& row : levels)
    if (row.name == level_name) return &row;
  return nullptr;
}

const Registry<Optimization>& optimizations() {
  static const Registry<Optimization> registry(
      "optimization",
      {
          {.name = "varlen",
           .summary = "packed documents attend only inside themselves, through cu_seqlens; "
                      "DeltaNet state and short "
                      "convolution are reset at their borders",
           .equivalence = Equivalence::Objective,
           .unit = Unit::TrainStep,
           .on_tiny = "seq_len=1024 batch_rows=1", // rows long enough for several documents
           .gates = {Gate::Isolation},
           .levels = {{"mask_dense",
                       "dense causal mask over the whole row; documents see each other",
                       [](TrainConfig& c) { c.attention = Attention::MaskDense; },
                       "attention/mask_dense"},
                      {"packed",
                       "the varlen kernel with row ends as cu_seqlens; documents see each other",
                       [](TrainConfig& c) { c.attention = Attention::Packed; },
                       "attention/packed"},
                      {"varlen",
                       "the varlen kernel with document ends as cu_seqlens",
                       [](TrainConfig& c) { c.attention = Attention::Varlen; },
                       "attention/varlen"}},
           .also_compare = {{"packed", "varlen"}},
           .equality = "changing one document leaves every output of the others bit-equal; packed "
                       "= mask_dense and "
                       "varlen = one forward per document within 1e-5"},
          {.name = "ema_swap",
           .summary = "evaluation on the EMA weights without a second copy of the model",
           .equivalence = Equivalence::Bitwise,
           .unit = Unit::Evaluation,
           .on_tiny = "ema_decay=0.99 eval_batches=1 batch_rows=1",
           .gates = {Gate::EmaSwap},
           .levels = {{"clone_copy",
                       "clone every weight, copy the EMA in, copy the clone back",
                       [](TrainConfig& c) { c.ema_swap = EmaSwap::CloneCopy; },
                       "ema/clone_copy"},
                      {"pointer_swap",
                       "swap the storage of weight and EMA tensors; their addresses change",
                       [](TrainConfig& c) { c.ema_swap = EmaSwap::PointerSwap; },
                       "ema/pointer_swap"},
                      {"exchange",
                       "exchange the contents in place in small pieces; addresses stay",
                       [](TrainConfig& c) { c.ema_swap = EmaSwap::Exchange; },
                       "ema/exchange"}},
           .also_compare = {{"pointer_swap", "exchange"}},
           .equality = "evaluation loss, restored weights and EMA bit-equal",
           .needs = {{"ema_decay above 0, or there is no average to evaluate on",
                      [](const TrainConfig& c) { return c.ema_decay > 0; }}}},
          {.name = "bf16_guard",
           .summary = "cast q, k, v to bf16 before the delta rule only if they are not bf16",
           .equivalence = Equivalence::Bitwise,
           .unit = Unit::TrainStep,
           .on_tiny = "precision=bf16 bf16_delta_inputs=true batch_rows=1",
           .gates = {Gate::Training},
           .levels = {{"cast_always",
                       ".to(bf16) on every input",
                       [](TrainConfig& c) { c.bf16_guard = Bf16Guard::CastAlways; },
                       "cast/always"},
                      {"cast_if_needed",
                       ".to(bf16) behind a test of the dtype",
                       [](TrainConfig& c) { c.bf16_guard = Bf16Guard::CastIfNeeded; },
                       "cast/if_needed"}},
           .equality = "loss and weights bit-equal after several steps",
           .family = "deltanet_mla",
           .needs = {{"delta_inputs = ops: the fused form writes 16 bits, so no cast is left",
                      [](const TrainConfig& c) { return c.delta_inputs == DeltaInputs::Ops; }}}},
          {.name = "delta_inputs",
           .summary = "short convolution, SiLU, L2 norm, decay and rate before the gated delta "
                      "rule in one kernel each way",
           .equivalence = Equivalence::Math,
           .unit = Unit::TrainStep,
           .gates = {Gate::SameFunction, Gate::Documents},
           .levels = {{"ops",
                       "an operator per step, fp32 between them",
                       [](TrainConfig& c) { c.delta_inputs = DeltaInputs::Ops; },
                       "delta_inputs/ops"},
                      {"fused",
                       "one CUDA kernel each way, which keeps only the product's output; the same "
                       "sums in tensor operations on a CPU",
                       [](TrainConfig& c) { c.delta_inputs = DeltaInputs::Fused; },
                       "delta_inputs/fused"}},
           .equality = "logits and gradients within rounding; a changed document leaves all others "
                       "bit-equal; documents packed equal documents alone",
           .family = "deltanet_mla",
           .needs = {{"on a GPU bf16 or fp8, conv_kernel 4 and head_dim 32, 64 or 128",
                      [](const TrainConfig& c) {
                        return c.device == Device::Cpu ||
                               ((c.precision == Precision::Bf16 || c.precision == Precision::Fp8) &&
                                c.conv_kernel == 4 && fits_kernels(c.head_dim));
                      }}}},
          {.name = "gdn_kernel",
           .summary = "the gated delta rule in five CUDA kernels instead of tensor operations",
           .equivalence = Equivalence::Math,
           .unit = Unit::TrainStep,
           .gates = {Gate::SameFunction, Gate::DeltaRule},
           .levels = {{"chunked_ops",
                       "tensor operations over all chunks, a triangular solve per chunk, fp32",
                       [](TrainConfig& c) { c.delta_form = DeltaForm::Chunked; },
                       "delta_rule/chunked_ops"},
                      {"fused",
                       "own kernels: 16-bit operands, fp32 sums, no gathered copies; tensor "
                       "operations of the same algebra on a CPU",
                       [](TrainConfig& c) { c.delta_form = DeltaForm::Fused; },
                       "delta_rule/fused"}},
           .equality = "logits and gradients within rounding; a changed document leaves all others "
                       "bit-equal; the rule equals the recurrence",
           .family = "deltanet_mla",
           .needs = {{"on a GPU bf16, chunk_size 64 and head_dim 32, 64 or 128",
                      [](const TrainConfig& c) {
                        return c.device == Device::Cpu ||
                               (c.precision == Precision::Bf16 && c.chunk_size == 64 &&
                                fits_kernels(c.head_dim));
                      }}}},
          {.name = "mla_inputs",
           .summary = "rotary positions, latent norm and concatenations of latent attention in two "
                      "kernels each way",
           .equivalence = Equivalence::Math,
           .unit = Unit::TrainStep,
           .gates = {Gate::SameFunction, Gate::Documents},
           .levels =
               {{"ops",
                 "an operator per step; pairs are rotated by separate products",
                 [](TrainConfig& c) { c.mla_inputs = MlaInputs::Ops; },
                 "mla_inputs/ops"},
                {"rotary_transpose",
                 "the same with heads before tokens in the rotation: every operand is copied "
                 "to be contiguous",
                 [](TrainConfig& c) { c.mla_inputs = MlaInputs::RotaryTranspose; },
                 "mla_inputs/rotary_transpose"},
                {"rotary_complex",
                 "the same with one product of complex numbers as rotation",
                 [](TrainConfig& c) { c.mla_inputs = MlaInputs::RotaryComplex; },
                 "mla_inputs/rotary_complex"},
                {"fused",
                 "two CUDA kernels each way, which rotate q in place; the same sums in tensor "
                 "operations on a CPU",
                 [](TrainConfig& c) { c.mla_inputs = MlaInputs::Fused; },
                 "mla_inputs/fused"}},
           .also_compare = {{"rotary_transpose", "rotary_complex"}},
           .equality = "logits and gradients within rounding; a changed document leaves all others "
                       "bit-equal; documents packed equal documents alone",
           .family = "deltanet_mla",
           .needs = {{"a layer of latent attention: an M in pattern",
                      [](const TrainConfig& c) {
                        return c.pattern.find('M') != std::string::npos;
                      }},
                     {"for level rotary_complex an even head_dim and an even kv_rank",
                      [](const TrainConfig& c) {
                        return c.mla_inputs != MlaInputs::RotaryComplex ||
                               (c.head_dim % 2 == 0 && c.kv_rank % 2 == 0);
                      }},
                     {"for level fused on a GPU bf16 or fp8, head_dim and kv_rank multiples of 8, "
                      "kv_rank at most 1024, and rope_dim a power of two from 8 to 256",
                      [](const TrainConfig& c) {
                        return c.mla_inputs != MlaInputs::Fused || c.device == Device::Cpu ||
                               ((c.precision == Precision::Bf16 || c.precision == Precision::Fp8) &&
                                fits_latent_kernels(c));
                      }}}},
          {.name = "norms",
           .summary = "residual sum and norm in one pass, and the norm behind the delta rule with "
                      "its gate",
           .equivalence = Equivalence::Math,
           .unit = Unit::TrainStep,
           .gates = {Gate::SameFunction},
           .levels = {{"ops",
                       "an operator per step",
                       [](TrainConfig& c) { c.norms = Norms::Ops; },
                       "norms/ops"},
                      {"fused",
                       "one CUDA kernel each way; the same sums in tensor operations on a CPU",
                       [](TrainConfig& c) { c.norms = Norms::Fused; },
                       "norms/fused"}},
           .equality = "logits and gradients within rounding"},
          {.name = "ffn_gate",
           .summary = "SwiGLU of the feed-forward in one kernel each way",
           .equivalence = Equivalence::Math,
           .unit = Unit::TrainStep,
           .gates = {Gate::SameFunction},
           .levels = {{"ops",
                       "SiLU, product and their gradients as operators",
                       [](TrainConfig& c) { c.ffn_gate = FfnGate::Ops; },
                       "ffn_gate/ops"},
                      {"fused",
                       "one CUDA kernel each way, which keeps only the product's input",
                       [](TrainConfig& c) { c.ffn_gate = FfnGate::Fused; },
                       "ffn_gate/fused"}},
           .equality = "logits and gradients within rounding",
           .family = "deltanet_mla"},
          {.name = "residual16",
           .summary =
               "the residual stream and its gradient in 16 bits between the norms, which add "
               "and norm in fp32",
           .equivalence = Equivalence::Statistical,
           .unit = Unit::TrainStep,
           .on_tiny = "precision=bf16 norms=fused",
           .gates = {Gate::SameFunction},
           .levels =
               {{"fp32",
                 "the stream is stored in fp32; its gradient for products is rounded beside it",
                 [](TrainConfig& c) { c.residual = Residual::Fp32; },
                 "residual16/fp32"},
                {"bf16",
                 "every sum of the stream, and every gradient of it, is rounded to bf16 where "
                 "it is stored",
                 [](TrainConfig& c) { c.residual = Residual::Bf16; },
                 "residual16/bf16"}},
           .equality =
               "logits and gradients within twice the reference's own distance from fp32, or "
               "1e-2",
           .needs = {{"norms = fused and precision = bf16: the fused norms alone add to a 16-bit "
                      "stream in fp32",
                      [](const TrainConfig& c) {
                        return c.norms == Norms::Fused && c.precision == Precision::Bf16;
                      }}}},
          {.name = "mla_attention",
           .summary = "what computes the causal attention of latent attention, whose values are "
                      "narrower than its keys",
           .equivalence = Equivalence::Math,
           .unit = Unit::TrainStep,
           .on_tiny = "device=cuda precision=bf16",
           .gates = {Gate::SameFunction, Gate::Documents},
           .levels = {{"flash_padded",
                       "values padded to the keys' width; flash attention 2 on a GPU in 16 bits, "
                       "else what LibTorch has for the device",
                       [](TrainConfig& c) { c.mla_attention = MlaAttention::FlashPadded; },
                       "mla_attention/flash_padded"},
                      {"cudnn",
                       "cuDNN, both widths as they are; a batch of more than 256 documents takes "
                       "flash_padded, with an alarm",
                       [](TrainConfig& c) { c.mla_attention = MlaAttention::Cudnn; },
                       "mla_attention/cudnn"},
                      {"efficient",
                       "LibTorch's memory-efficient kernel, both widths as they are",
                       [](TrainConfig& c) { c.mla_attention = MlaAttention::Efficient; },
                       "mla_attention/efficient"},
                      {"math",
                       "tensor operations in fp32 over chunks of queries",
                       [](TrainConfig& c) { c.mla_attention = MlaAttention::Math; },
                       "mla_attention/math"}},
           .also_compare = {{"efficient", "cudnn"}},
           .equality = "logits and gradients within rounding; a changed document leaves all others "
                       "bit-equal; documents packed equal documents alone",
           .family = "deltanet_mla",
           .needs = {{"attention = packed or varlen: mask_dense has a mask, which these kernels do "
                      "not take",
                      [](const TrainConfig& c) { return c.attention != Attention::MaskDense; }}}},
          {.name = "loss_head",
           .summary = "the head's product and the cross entropy in chunks of tokens, gradients "
                      "computed in the forward pass",
           .equivalence = Equivalence::Math,
           .unit = Unit::TrainStep,
           .gates = {Gate::SameFunction, Gate::Loss},
           .levels = {{"logits",
                       "all logits at once, softmax and its gradient as operators in fp32",
                       [](TrainConfig& c) { c.loss_chunk_mib = 0; },
                       "loss_head/logits"},
                      {"chunked",
                       "256 MiB of logits at a time, which one CUDA kernel turns into their "
                       "gradient; the same function in tensor operations on a CPU",
                       [](TrainConfig& c) { c.loss_chunk_mib = 256; },
                       "loss_head/chunked"},
                      {"chunked_64mib",
                       "the same with 64 MiB",
                       [](TrainConfig& c) { c.loss_chunk_mib = 64; },
                       "loss_head/chunked_64mib"}},
           .also_compare = {{"chunked", "chunked_64mib"}},
           .equality = "losses of training and evaluation, and gradients, within rounding"},
          {.name = "weights16",
           .summary =
               "16-bit copies of the weights that products take: cast for every use, or kept "
               "and written by every update",
           .equivalence = Equivalence::Math,
           .unit = Unit::TrainStep,
           .on_tiny = "precision=bf16",
           .gates = {Gate::SameFunction, Gate::Loss, Gate::Copies},
           .levels =
               {{"cast",
                 "autocast casts a weight in every micro-batch, and its gradient from 16 bits",
                 [](TrainConfig& c) { c.weights16 = Weights16::Cast; },
                 "weights16/cast"},
                {"kept",
                 "products take a kept copy; the gradient of a weight leaves its product in "
                 "fp32",
                 [](TrainConfig& c) { c.weights16 = Weights16::Kept; },
                 "weights16/kept"}},
           .equality = "logits, gradients and losses within rounding; copies equal the rounded "
                       "weights after steps, an evaluation and a load",
           .needs = {{"precision bf16, fp16 or fp8: in fp32 no product takes 16 bits",
                      [](const TrainConfig& c) { return c.precision != Precision::Fp32; }}}},
          {.name = "update_pass",
           .summary =
               "gradient clipping, AdamW, EMA and 16-bit copies in one pass over the weights",
           .equivalence = Equivalence::Math,
           .unit = Unit::TrainStep,
           .gates = {Gate::Update},
           .levels = {{"per_parameter",
                       "operators for every parameter, one after the other",
                       [](TrainConfig& c) { c.update_pass = UpdatePass::PerParameter; },
                       "update_pass/per_parameter"},
                      {"foreach",
                       "LibTorch's multi-tensor kernels: norm, clip, AdamW and average, one pass "
                       "each",
                       [](TrainConfig& c) { c.update_pass = UpdatePass::Foreach; },
                       "update_pass/foreach"},
                      {"one_pass",
                       "three launches for the whole model; the same function in a plain loop on a "
                       "CPU",
                       [](TrainConfig& c) { c.update_pass = UpdatePass::OnePass; },
                       "update_pass/one_pass"}},
           .also_compare = {{"foreach", "one_pass"}},
           .equality = "weights, moments and average within rounding after updates with the same "
                       "gradients; a skipped update changes no bit of weights and moments"},
          {.name = "grad_scaler",
           .summary = "dynamic loss scaling with device-side unscaling and overflow check",
           .equivalence = Equivalence::Bitwise,
           .unit = Unit::TrainStep,
           .on_tiny = "batch_rows=1",
           .gates = {Gate::Scaler},
           .levels =
               {{"off",
                 "no loss scaling",
                 [](TrainConfig& c) { c.grad_scaler = GradScaler::Off; },
                 "scaler/off"},
                {"dynamic",
                 "loss times a power of two, gradients divided by it, overflowing steps skipped",
                 [](TrainConfig& c) { c.grad_scaler = GradScaler::Dynamic; },
                 "scaler/dynamic"}},
           .equality = "power-of-two scale without overflow: fp32 updates bit-equal"},
          {.name = "step_graph",
           .summary = "the whole training step, forward to EMA, as one CUDA graph that one launch "
                      "replays",
           .equivalence = Equivalence::Bitwise,
           .unit = Unit::TrainStep,
           .on_tiny = "device=cuda precision=bf16 delta_form=fused delta_inputs=fused",
           .gates = {Gate::Training},
           .levels = {{"off",
                       "the host launches every kernel of every step",
                       [](TrainConfig& c) { c.step_graph = StepGraph::Off; },
                       "graph/off"},
                      {"on",
                       "captured after three steps; a replay takes its batch, documents and "
                       "learning rate from fixed addresses",
                       [](TrainConfig& c) { c.step_graph = StepGraph::On; },
                       "graph/replay"}},
           .equality = "loss and weights bit-equal after several steps, or within the reference's "
                       "own noise",
           .family = "deltanet_mla",
           .needs = step_graph_needs()},
          {.name = "nsa_ranges",
           .summary = "selected blocks of native sparse attention become token ranges, or reach "
                      "the kernel as they are",
           .equivalence = Equivalence::Math,
           .unit = Unit::TrainStep,
           .on_tiny = "pattern=N batch_rows=1",
           .gates = {Gate::NsaRanges},
           .levels = {{"v1",
                       "a host loop over rows, tokens and groups that reads every index by itself",
                       [](TrainConfig& c) { c.nsa_ranges = NsaRanges::V1; },
                       "nsa_ranges/v1"},
                      {"v2a",
                       "sort, run detection and scatter in tensor operations, no synchronization",
                       [](TrainConfig& c) { c.nsa_ranges = NsaRanges::V2a; },
                       "nsa_ranges/v2a"},
                      {"v2b",
                       "one CUDA kernel",
                       [](TrainConfig& c) { c.nsa_ranges = NsaRanges::V2b; },
                       "nsa_ranges/v2b"},
                      {"direct",
                       "no ranges: attention takes the block indices",
                       [](TrainConfig& c) { c.nsa_ranges = NsaRanges::Direct; },
                       "nsa_ranges/direct"}},
           .also_compare = {{"v2a", "v2b"}, {"v2b", "direct"}},
           .equality = "ranges equal for every query; logits and gradients within the rounding of "
                       "another order of keys",
           .family = "nsa",
           .needs = {{"nsa_attention = nsa, or no block is selected",
                      [](const TrainConfig& c) { return c.nsa_attention == NsaAttention::Nsa; }}}},
          {.name = "ddp_buckets",
           .summary = "gradients of several ranks are all-reduced in buckets of this size during "
                      "the backward pass",
           .equivalence = Equivalence::Math,
           .unit = Unit::TrainStep,
           .gates = {Gate::Gradients},
           .levels = {{"mib1",
                       "1 MiB: many all-reduces, the first one early",
                       [](TrainConfig& c) { c.ddp_bucket_mib = 1; },
                       "ddp/buckets_1"},
                      {"mib25",
                       "25 MiB, PyTorch's default",
                       [](TrainConfig& c) { c.ddp_bucket_mib = 25; },
                       "ddp/buckets_25"},
                      {"mib50",
                       "50 MiB",
                       [](TrainConfig& c) { c.ddp_bucket_mib = 50; },
                       "ddp/buckets_50"},
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
           .needs_ranks = true},
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
          {.name = "validation_ranks",
           .summary = "the evaluation's batches are shared among the ranks",
           .equivalence = Equivalence::Math,
           .unit = Unit::Evaluation,
           .gates = {Gate::Validation},
           .levels =
               {{"rank0",
                 "rank 0 evaluates alone; the others wait at the barrier after it",
                 [](TrainConfig& c) { c.validation_ranks = ValidationRanks::Rank0; },
                 "validation/rank0"},
                {"sharded",
                 "every rank evaluates its share; loss sum and token count are all-reduced",
                 [](TrainConfig& c) { c.validation_ranks = ValidationRanks::Sharded; },
                 "validation/sharded"},
                {.name = "seed_barrier",
                 .summary = "a known bug: the barrier is inside rank 0's branch, which no "
                            "other rank reaches",
                 .apply = [](TrainConfig& c) { c.validation_ranks = ValidationRanks::SeedBarrier; },
                 .span = "validation/seed_barrier",
                 .wrong = true}},
           .equality = "every rank issues the same collectives; the loss equals that of one "
                       "process on all batches",
           .needs_ranks = true},
          {.name = "planted_slowdown",
           .summary = "test row: a busy wait of 5 % of the running median step",
           .equivalence = Equivalence::Bitwise,
           .unit = Unit::TrainStep,
           .gates = {Gate::Training},
           .levels = {{"off", "no wait", [](TrainConfig& c) { c.planted_spin = 0; }, ""},
                      {"spin5",
                       "busy wait of 5 % after every step",
                       [](TrainConfig& c) { c.planted_spin = 0.05; },
                       "planted/spin"}},
           .equality = "loss and weights bit-equal after several steps",
           .hidden = true},
          {.name = "planted_calibration",
           .summary =
               "test row of `make calibrate`: a busy wait of nothing, and of 2 % of the step",
           .equivalence = Equivalence::Bitwise,
           .unit = Unit::TrainStep,
           .gates = {Gate::Training},
           .levels = {{"off", "no wait", [](TrainConfig& c) { c.planted_spin = 0; }, ""},
                      {"spin0", // an A/A comparison that gets a verdict
                       "busy wait of a billionth after every step",
                       [](TrainConfig& c) { c.planted_spin = 1e-9; },
                       "planted/spin"},
                      {"spin2",
                       "busy wait of 2 % after every step",
                       [](TrainConfig& c) { c.planted_spin = 0.02; },
                       "planted/spin"}},
           .equality = "loss and weights bit-equal after several steps",
           .hidden = true},
          {.name = "planted_stages",
           .summary = "test row: 1 ms more in one stage of the step",
           .equivalence = Equivalence::Bitwise,
           .unit = Unit::TrainStep,
           .gates = {Gate::Training},
           .levels =
               {{"off", "no wait", [](TrainConfig& c) { c.planted_wait = PlantedWait::None; }, ""},
                {"forward",
                 "1 ms more in the forward pass",
                 [](TrainConfig& c) { c.planted_wait = PlantedWait::Forward; },
                 "planted/forward"},
                {"backward",
                 "1 ms more in the backward pass",
                 [](TrainConfig& c) { c.planted_wait = PlantedWait::Backward; },
                 "planted/backward"},
                {"optimizer",
                 "1 ms more in the optimizer",
                 [](TrainConfig& c) { c.planted_wait = PlantedWait::Optimizer; },
                 "planted/optimizer"},
                {"ema",
                 "1 ms more in the EMA update",
                 [](TrainConfig& c) { c.planted_wait = PlantedWait::Ema; },
                 "ema/planted"},
                {"host",
                 "the host sleeps 1 ms between two stages",
                 [](TrainConfig& c) { c.planted_wait = PlantedWait::Host; },
                 "planted/host"}},
           .equality = "loss and weights bit-equal after several steps",
           .hidden = true},
      });
  return registry;
}

std::set<std::string> switched_keys(const Optimization& row) {
  std::set<std::string> keys;
  for (const Level& level : row.levels) {
    TrainConfig reference, changed;
    row.levels.front().apply(reference);
    level.apply(changed);
    const nlohmann::json a = to_json(reference), b = to_json(changed);
    for (const auto& [key, value] : a.items())
      if (b.at(key) != value) keys.insert(key);
  }
  return keys;
}

std::string_view to_string(Equivalence value) {
  constexpr std::string_view kNames[] = {"bitwise", "math", "statistical", "objective"};
  return kNames[static_cast<int>(value)];
}

std::string_view to_string(Unit value) {
  constexpr std::string_view kNames[] = {"train_step", "evaluation"};
  return kNames[static_cast<int>(value)];
}

} // namespace assay
