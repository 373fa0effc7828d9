// Rows of optimizations(). Softmax attention: documents in a row, latent attention, native sparse
// attention.
#include "model/config/family_config.h"
#include "model/config/mla_attention.h"
#include "model/config/optimizations/rows.h"
#include "model/config/shapes/nsa_shape.h"

namespace assay {

namespace {

// As kernels/attention/latent.h.
bool fits_latent_kernels(const TrainConfig& c) {
  const bool power_of_two = c.rope_dim > 0 && (c.rope_dim & (c.rope_dim - 1)) == 0;
  return c.head_dim % 8 == 0 && c.kv_rank % 8 == 0 && c.kv_rank <= 1024 && c.rope_dim >= 8 &&
         c.rope_dim <= 256 && power_of_two;
}

constexpr int kCudnnCapability = 90; // as kernels/attention/cudnn_plans.cpp

const Need kLatentLayer{{"a layer of latent attention", "an M in pattern"},
                        [](const TrainConfig& c) { return has_layer(c, 'M'); },
                        true};

} // namespace

std::vector<Optimization> attention_rows() {
  return {
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
                   "attention/varlen"},
                  {.name = "no_causal_mask",
                   .summary = "a known bug: every token sees its whole document, the future too",
                   .apply = [](TrainConfig& c) { c.attention = Attention::NoCausalMask; },
                   .span = "attention/no_causal_mask",
                   .wrong = true},
                  {.name = "shifted_borders",
                   .summary = "a known bug: the borders in cu_seqlens lie one token late",
                   .apply = [](TrainConfig& c) { c.attention = Attention::ShiftedBorders; },
                   .span = "attention/shifted_borders",
                   .wrong = true}},
       .also_compare = {{"packed", "varlen"}},
       .equality = "changing one document leaves every output of the others bit-equal; packed "
                   "= mask_dense and "
                   "varlen = one forward per document within 1e-5",
       .needs = {{{"a layer of attention over all tokens",
                   "an M in pattern, or nsa_attention = dense, or family gpt or hydra"},
                  [](const TrainConfig& c) { return layouts_of(c).causal_mask; }}}},
      {.name = "mla_inputs",
       .summary = "rotary positions, latent norm and concatenations of latent attention in two "
                  "kernels each way",
       .equivalence = Equivalence::Math,
       .unit = Unit::TrainStep,
       .on_cuda = "precision=bf16",
       .gates = {Gate::SameFunction, Gate::Documents},
       .levels = {{"ops",
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
       .needs =
           {kLatentLayer,
            {.words = "an even head_dim and an even kv_rank",
             .met = [](const TrainConfig& c) { return c.head_dim % 2 == 0 && c.kv_rank % 2 == 0; },
             .level = "rotary_complex"},
            {.words = {"projections = joined", "its kernel reads keys and values from one product"},
             .met =
                 [](const TrainConfig& c) {
                   return c.projections == Projections::Joined || !has_layer(c, 'M');
                 },
             .level = "fused",
             .always = true},
            {.words = "bf16 or fp8, head_dim and kv_rank multiples of 8, kv_rank at most 1024, "
                      "and rope_dim a power of two from 8 to 256 on a GPU",
             .met =
                 [](const TrainConfig& c) {
                   return c.device == Device::Cpu || (in_bf16_or_fp8(c) && fits_latent_kernels(c));
                 },
             .level = "fused"}},
       .fast_default = "fused"},
      {.name = "mla_attention",
       .summary = "what computes causal attention: that of latent attention, whose values are "
                  "narrower than its keys, or that of family gpt",
       .equivalence = Equivalence::Math,
       .unit = Unit::TrainStep,
       .on_tiny = "device=cuda precision=bf16",
       .gates = {Gate::SameFunction, Gate::Documents},
       .levels =
           {{"flash_padded",
             "narrower values padded to the keys' width; flash attention 2 on a GPU in 16 bits, "
             "else what LibTorch has for the device",
             [](TrainConfig& c) { c.mla_attention = MlaAttention::FlashPadded; },
             "mla_attention/flash_padded"},
            {"cudnn",
             "cuDNN, both widths as they are, gpt's q, k and v where they are; a batch of "
             "more than 256 documents takes flash_padded, with an alarm",
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
       .needs = {{"a layer of latent attention, an M in pattern, or family gpt",
                  [](const TrainConfig& c) { return has_layer(c, 'M') || has_layer(c, 'A'); },
                  true},
                 {{"attention = packed or varlen",
                   "mask_dense has a mask, which these kernels do not take"},
                  packs_segments},
                 {.words =
                      "bf16, fp16 or fp8, and head_dim and head_dim + rope_dim multiples of 8, "
                      "at most 128",
                  .met = fits_cudnn,
                  .level = "cudnn"}},
       .fast_default = "cudnn",
       .fast_capability = kCudnnCapability},
      {.name = "projections",
       .summary = "one product where several read the same input: q, k and v of families gpt and "
                  "hydra, keys and values of latent attention",
       .equivalence = Equivalence::Math,
       .unit = Unit::TrainStep,
       .gates = {Gate::SameFunction},
       .levels = {{"split",
                   "a product each, over slices of the weight",
                   [](TrainConfig& c) { c.projections = Projections::Split; },
                   "projections/split"},
                  {"joined",
                   "one product, whose result is cut",
                   [](TrainConfig& c) { c.projections = Projections::Joined; },
                   "projections/joined"}},
       .equality = "logits and gradients within rounding",
       .needs = {{"a layer of latent attention, an M in pattern, or family gpt or hydra",
                  [](const TrainConfig& c) {
                    return has_layer(c, 'M') || has_layer(c, 'A') || has_layer(c, 'C');
                  },
                  true},
                 {.words = {"precision fp32, bf16 or fp16", "FP8 casts whole weights"},
                  .met = [](const TrainConfig& c) { return c.precision != Precision::Fp8; },
                  .level = "split"}}},
      {.name = "qkv_copies",
       .summary = "q, k and v reach attention as slices of their product, without copies that make "
                  "them contiguous",
       .equivalence = Equivalence::Math,
       .unit = Unit::TrainStep,
       .gates = {Gate::SameFunction},
       .levels = {{"twice",
                   "contiguous() asked for twice; the second time copies nothing",
                   [](TrainConfig& c) { c.qkv_copies = QkvCopies::Twice; },
                   "qkv_copies/twice"},
                  {"once",
                   "a contiguous copy each",
                   [](TrainConfig& c) { c.qkv_copies = QkvCopies::Once; },
                   "qkv_copies/once"},
                  {"none",
                   "slices",
                   [](TrainConfig& c) { c.qkv_copies = QkvCopies::None; },
                   "qkv_copies/none"}},
       .also_compare = {{"once", "none"}},
       .equality = "logits and gradients within rounding",
       .family = "gpt",
       .needs = {{{"projections = joined", "of products of their own there is nothing to copy"},
                  [](const TrainConfig& c) { return c.projections == Projections::Joined; }}}},
      {.name = "gqa",
       .summary = "heads of a group read the same keys and values, instead of a copy for each head",
       .equivalence = Equivalence::Math,
       .unit = Unit::TrainStep,
       .on_tiny = "nsa_attention=dense",
       .on_cuda = "precision=bf16",
       .gates = {Gate::SameFunction, Gate::Documents},
       .levels = {{"repeat",
                   "keys and values repeated for every head",
                   [](TrainConfig& c) { c.gqa = Gqa::Repeat; },
                   "gqa/repeat"},
                  {"shared",
                   "the kernel finds the group of a head",
                   [](TrainConfig& c) { c.gqa = Gqa::Shared; },
                   "gqa/shared"}},
       .equality = "logits and gradients within rounding; a changed document leaves all others "
                   "bit-equal; documents packed equal documents alone",
       .family = "nsa",
       .needs = always(
           {{{"nsa_attention = dense in family nsa, or family hydra",
              "sparse attention shares them anyway, and other families have no groups"},
             [](const TrainConfig& c) {
               return (has_layer(c, 'N') && c.nsa_attention == NsaAttention::Dense) ||
                      has_layer(c, 'C');
             }},
            {"kv_groups below heads, or every head has its own",
             [](const TrainConfig& c) { return c.kv_groups < c.heads; }},
            {.words = "attention = packed or varlen", .met = packs_segments, .level = "shared"},
            {.words = "on a GPU precision other than fp32, whose kernel needs as many keys as "
                      "heads",
             .met =
                 [](const TrainConfig& c) {
                   return c.device == Device::Cpu || c.precision != Precision::Fp32;
                 },
             .level = "shared"}})},
      {.name = "nsa_inputs",
       .summary = "rotary positions, compressed blocks, gates and the mix of branches of native "
                  "sparse attention in three kernels forward and two backward",
       .equivalence = Equivalence::Math,
       .unit = Unit::TrainStep,
       .on_cuda = "precision=bf16",
       .gates = {Gate::SameFunction, Gate::Documents},
       .levels = {{"ops",
                   "an operator per step, rotation and mix in fp32",
                   [](TrainConfig& c) { c.nsa_inputs = NsaInputForm::Ops; },
                   "nsa_inputs/ops"},
                  {"fused",
                   "kernels that read the product once and write what each branch takes, and one "
                   "for gates and mix; the same sums in tensor operations on a CPU",
                   [](TrainConfig& c) { c.nsa_inputs = NsaInputForm::Fused; },
                   "nsa_inputs/fused"}},
       .equality = "logits and gradients within rounding; a changed document leaves all others "
                   "bit-equal; documents packed equal documents alone",
       .family = "nsa",
       .needs = {{"nsa_attention = nsa, or there are no branches",
                  [](const TrainConfig& c) { return c.nsa_attention == NsaAttention::Nsa; }},
                 {.words = "bf16 or fp8, head_dim 64 and nsa_gate_dim at most 32 on a GPU",
                  .met =
                      [](const TrainConfig& c) {
                        return c.device == Device::Cpu ||
                               (in_bf16_or_fp8(c) && c.head_dim == 64 && c.nsa_gate_dim <= 32);
                      },
                  .level = "fused"},
                 {.words = {"nsa_form = batched, nsa_overlap = product and nsa_stats = off",
                            "its kernels have one form"},
                  .met = [](const TrainConfig& c) { return !needs_nsa_operators(c); },
                  .level = "fused",
                  .always = true}},
       .fast_default = "fused"},
      {.name = "nsa_form",
       .summary = "the branches of native sparse attention take many queries at a time instead of "
                  "one token after the other",
       .equivalence = Equivalence::Math,
       .unit = Unit::TrainStep,
       .on_tiny = "pattern=N batch_rows=1",
       .gates = {Gate::SameFunction, Gate::Documents},
       .levels = {{"per_token",
                   "a host loop over tokens: gathered keys and values, one softmax a branch",
                   [](TrainConfig& c) { c.nsa_form = NsaForm::PerToken; },
                   "nsa_form/per_token"},
                  {"batched",
                   "chunks of queries in one product; on a GPU in 16 bits kernels over all of them",
                   [](TrainConfig& c) { c.nsa_form = NsaForm::Batched; },
                   "nsa_form/batched"},
                  {.name = "first_value",
                   .summary = "a known bug: the value of a compressed block is that of its first "
                              "token, not the mean",
                   .apply = [](TrainConfig& c) { c.nsa_form = NsaForm::FirstValue; },
                   .span = "nsa_form/first_value",
                   .wrong = true},
                  {.name = "future_scores",
                   .summary = "a known bug: blocks behind a query take part in the scores by which "
                              "it selects",
                   .apply = [](TrainConfig& c) { c.nsa_form = NsaForm::FutureScores; },
                   .span = "nsa_form/future_scores",
                   .wrong = true}},
       .equality = "logits and gradients within rounding; a changed document leaves all others "
                   "bit-equal; documents packed equal documents alone",
       .family = "nsa",
       .needs = {{"nsa_attention = nsa, or there are no branches",
                  [](const TrainConfig& c) { return c.nsa_attention == NsaAttention::Nsa; }}}},
      {.name = "nsa_overlap",
       .summary = "scores of compressed blocks become those of selection blocks by a product with "
                  "the dense matrix of their overlap",
       .equivalence = Equivalence::Math,
       .unit = Unit::TrainStep,
       .on_tiny = "pattern=N",
       .on_cuda = "precision=fp32",
       .gates = {Gate::SameFunction, Gate::Documents},
       .levels = {{"scatter",
                   "pairs of blocks that share tokens in coordinate form: gathered, weighted, and "
                   "added by index",
                   [](TrainConfig& c) { c.nsa_overlap = NsaOverlap::Scatter; },
                   "nsa_overlap/scatter"},
                  {"product",
                   "one product with the overlap, mostly zeros",
                   [](TrainConfig& c) { c.nsa_overlap = NsaOverlap::Product; },
                   "nsa_overlap/product"}},
       .equality = "logits and gradients within rounding; a changed document leaves all others "
                   "bit-equal; documents packed equal documents alone",
       .family = "nsa",
       .needs = {{"nsa_attention = nsa, or no block is selected",
                  [](const TrainConfig& c) { return c.nsa_attention == NsaAttention::Nsa; }},
                 {{"on a GPU precision = fp32",
                   "in 16 bits the kernel that selects adds up the scores by itself"},
                  [](const TrainConfig& c) {
                    return c.device == Device::Cpu || c.precision == Precision::Fp32;
                  }}}},
      {.name = "nsa_stats",
       .summary = "steps in which the host reads no statistics of the branches",
       .equivalence = Equivalence::Bitwise,
       .unit = Unit::TrainStep,
       .on_tiny = "batch_rows=1",
       .gates = {Gate::Training},
       .levels = {{"every_step",
                   "the host reads the mean gate of each branch and the mean count of selected "
                   "blocks, in every layer",
                   [](TrainConfig& c) { c.nsa_stats = NsaStats::EveryStep; },
                   "nsa_stats/every_step"},
                  {"every50",
                   "the same in one step of 50, beginning with the first",
                   [](TrainConfig& c) { c.nsa_stats = NsaStats::Every50; },
                   "nsa_stats/every50"},
                  {"off",
                   "nothing is read",
                   [](TrainConfig& c) { c.nsa_stats = NsaStats::Off; },
                   "nsa_stats/off"}},
       .equality = "loss and weights bit-equal after several steps, or within the reference's own "
                   "noise",
       .family = "nsa",
       .needs = {{"nsa_attention = nsa, or there are no branches",
                  [](const TrainConfig& c) { return c.nsa_attention == NsaAttention::Nsa; }},
                 {{"step_graph = off", "the host reads nothing in a graph"},
                  [](const TrainConfig& c) { return c.step_graph == StepGraph::Off; }}}},
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
  };
}

} // namespace assay
