// Rows of optimizations(). The delta rule and what stands between the large products.
#include "model/config/family_config.h"
#include "model/config/optimizations/rows.h"
#include "model/config/shapes/expert_shape.h"

namespace assay {

namespace {

// As kernels/delta_rule/delta_rule.h, whose headers need CUDA.
bool fits_kernels(std::int64_t head_dim) {
  return head_dim == 32 || head_dim == 64 || head_dim == 128;
}

// As kernels/scan/scan.h.
bool fits_scan_kernels(const TrainConfig& c) {
  const bool rwkv = has_layer(c, 'P') || has_layer(c, 'R'),
             mamba = has_layer(c, 'P') || has_layer(c, 'S');
  return c.device == Device::Cpu ||
         (in_bf16_or_fp8(c) && c.chunk_size == 64 && (!rwkv || c.head_dim == 64) &&
          (!mamba || (c.head_dim % 32 == 0 && (c.state_dim == 64 || c.state_dim == 128))));
}

const Need kDeltaLayer{{"a layer of the gated delta rule", "a G in pattern"},
                       [](const TrainConfig& c) { return has_layer(c, 'G'); },
                       true};

} // namespace

std::vector<Optimization> layer_rows() {
  return {
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
       .needs = {kDeltaLayer,
                 {{"bf16_delta_inputs = true",
                   "without it the delta rule takes q, k, v as they are, in every precision, and "
                   "neither level casts"},
                  [](const TrainConfig& c) { return c.bf16_delta_inputs; }},
                 {{"delta_inputs = ops", "the fused form writes 16 bits, so no cast is left"},
                  [](const TrainConfig& c) { return c.delta_inputs == DeltaInputs::Ops; }}}},
      {.name = "delta_inputs",
       .summary = "short convolution, SiLU, L2 norm, decay and rate before the gated delta "
                  "rule in one kernel each way",
       .equivalence = Equivalence::Math,
       .unit = Unit::TrainStep,
       .on_cuda = "precision=bf16",
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
       .needs = {kDeltaLayer,
                 {"bf16 or fp8, conv_kernel 4 and head_dim 32, 64 or 128 on a GPU",
                  [](const TrainConfig& c) {
                    return c.device == Device::Cpu ||
                           (in_bf16_or_fp8(c) && c.conv_kernel == 4 && fits_kernels(c.head_dim));
                  }}},
       .fast_default = "fused"},
      {.name = "gdn_kernel",
       .summary = "the gated delta rule in five CUDA kernels instead of tensor operations",
       .equivalence = Equivalence::Math,
       .unit = Unit::TrainStep,
       .on_cuda = "precision=bf16",
       .gates = {Gate::SameFunction, Gate::DeltaRule},
       .levels = {{"chunked_ops",
                   "tensor operations over all chunks, a triangular solve per chunk, fp32",
                   [](TrainConfig& c) { c.delta_form = DeltaForm::Chunked; },
                   "delta_rule/chunked_ops"},
                  {"fused",
                   "own kernels: 16-bit operands, fp32 sums, no gathered copies; tensor "
                   "operations of the same algebra on a CPU",
                   [](TrainConfig& c) { c.delta_form = DeltaForm::Fused; },
                   "delta_rule/fused"},
                  {.name = "undecayed_erase",
                   .summary = "a known bug: what is erased is read before the state decays",
                   .apply = [](TrainConfig& c) { c.delta_form = DeltaForm::UndecayedErase; },
                   .span = "delta_rule/undecayed_erase",
                   .wrong = true}},
       .equality = "logits and gradients within rounding; a changed document leaves all others "
                   "bit-equal; the rule equals the recurrence",
       .family = "deltanet_mla",
       .needs = {kDeltaLayer,
                 {"bf16 or fp8, chunk_size 64 and head_dim 32, 64 or 128 on a GPU",
                  [](const TrainConfig& c) {
                    return c.device == Device::Cpu ||
                           (in_bf16_or_fp8(c) && c.chunk_size == 64 && fits_kernels(c.head_dim));
                  }}},
       .fast_default = "fused"},
      {.name = "scan_form",
       .summary = "the recurrences of RWKV-6 and Mamba-2 over chunks of tokens instead of token by "
                  "token",
       .equivalence = Equivalence::Math,
       .unit = Unit::TrainStep,
       .on_cuda = "precision=bf16 head_dim=64 state_dim=64",
       .gates = {Gate::SameFunction, Gate::Documents},
       .levels = {{"loop",
                   "one token of every segment at a time, through autograd",
                   [](TrainConfig& c) { c.scan_form = ScanForm::Loop; },
                   "scan/loop"},
                  {"chunked",
                   "matrix products over all chunks and a scan over chunks, with a hand-written "
                   "backward",
                   [](TrainConfig& c) { c.scan_form = ScanForm::Chunked; },
                   "scan/chunked"},
                  {.name = "fused",
                   .summary = "own kernels: 16-bit operands, fp32 sums, no gathered copies; the "
                              "chunks on a CPU",
                   .apply = [](TrainConfig& c) { c.scan_form = ScanForm::Fused; },
                   .span = "scan/fused",
                   .on_cpu = "chunked"}},
       .equality = "logits and gradients within rounding; a changed document leaves all others "
                   "bit-equal; documents packed equal documents alone",
       .family = "rwmba",
       .needs = {{.words = "bf16 or fp8 and chunk_size 64; with RWKV-6 head_dim 64, with Mamba-2 "
                           "head_dim a multiple of 32 and state_dim 64 or 128, on a GPU",
                  .met = fits_scan_kernels,
                  .level = "fused",
                  .always = true}},
       .fast_default = "fused"},
      {.name = "routing",
       .summary = "feed-forwards of family hydra compute the tokens that take them alone, gathered "
                  "and scattered, instead of all",
       .equivalence = Equivalence::Math,
       .unit = Unit::TrainStep,
       .gates = {Gate::SameFunction, Gate::Documents},
       .levels = {{"masked",
                   "all tokens through every pass; what is not taken is multiplied by 0",
                   [](TrainConfig& c) { c.routing = Routing::Masked; },
                   "routing/masked"},
                  {"compacted",
                   "the taken tokens alone; the host waits for their number",
                   [](TrainConfig& c) { c.routing = Routing::Compacted; },
                   "routing/compacted"},
                  {"static",
                   "tensors of all tokens, the taken ones in front, whose number stays on the "
                   "device: products compute these alone",
                   [](TrainConfig& c) { c.routing = Routing::Static; },
                   "routing/static"}},
       .equality = "logits and gradients within rounding; a changed document leaves all others "
                   "bit-equal; documents packed equal documents alone",
       .family = "hydra",
       .needs = {{{"recursions above 1, or mod_percent below 100 and at least 3 layers",
                   "without them every token takes every pass"},
                  [](const TrainConfig& c) {
                    return c.recursions > 1 || (c.mod_percent < 100 && c.pattern.size() > 2);
                  }}}},
      {.name = "moe_router",
       .summary = "all experts of a mixture in one product of groups, instead of one expert after "
                  "the other",
       .equivalence = Equivalence::Math,
       .unit = Unit::TrainStep,
       .on_tiny = "preset=moe-tiny",
       .on_cuda = "precision=bf16",
       .gates = {Gate::SameFunction, Gate::Documents},
       .levels = {{"loop",
                   "the host asks which tokens take an expert, and gathers and adds them",
                   [](TrainConfig& c) { c.expert_form = ExpertForm::Loop; },
                   "experts/loop"},
                  {"grouped",
                   "tokens sorted by expert, three products of groups; on a CPU, and in fp32, a "
                   "product for each group",
                   [](TrainConfig& c) { c.expert_form = ExpertForm::Grouped; },
                   "experts/grouped"}},
       .equality = "logits and gradients within rounding; a changed document leaves all others "
                   "bit-equal; documents packed equal documents alone",
       .family = "deltanet_mla",
       .needs = {{{"a mixture of experts, as preset moe-tiny has", "other models have no router"},
                  has_experts,
                  true}}},
      {.name = "qk_conv",
       .summary = "the convolutions of queries and keys of family hydra as one product of all taps",
       .equivalence = Equivalence::Math,
       .unit = Unit::TrainStep,
       .gates = {Gate::SameFunction, Gate::Documents},
       .levels = {{"taps",
                   "a product for each tap, and their sum",
                   [](TrainConfig& c) { c.qk_conv = QkConv::Taps; },
                   "qk_conv/taps"},
                  {"joined",
                   "the tokens of all taps side by side, in one product",
                   [](TrainConfig& c) { c.qk_conv = QkConv::Joined; },
                   "qk_conv/joined"}},
       .equality = "logits and gradients within rounding; a changed document leaves all others "
                   "bit-equal; documents packed equal documents alone",
       .family = "hydra"},
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
       .equality = "logits and gradients within rounding",
       .fast_default = "fused"},
      {.name = "ffn_gate",
       .summary =
           "what the feed-forward computes between its products, SwiGLU or bias and GELU, in "
           "one kernel each way",
       .equivalence = Equivalence::Math,
       .unit = Unit::TrainStep,
       .gates = {Gate::SameFunction},
       .levels = {{"ops",
                   "SiLU and product, or GELU, and their gradients as operators",
                   [](TrainConfig& c) { c.ffn_gate = FfnGate::Ops; },
                   "ffn_gate/ops"},
                  {"fused",
                   "one CUDA kernel each way, which keeps only the product's input",
                   [](TrainConfig& c) { c.ffn_gate = FfnGate::Fused; },
                   "ffn_gate/fused"}},
       .equality = "logits and gradients within rounding",
       .needs = {{{"a feed-forward with SwiGLU or GELU",
                   "family nsa's has SiLU alone, an operator"},
                  [](const TrainConfig& c) {
                    return family_of(c).form.feed_forward != FeedForward::Silu;
                  },
                  true}},
       .fast_default = "fused"},
      {.name = "epilogue",
       .summary =
           "bias, GELU, its gradient and sums of biases' gradients inside the products beside "
           "them, by cuBLASLt",
       .equivalence = Equivalence::Math,
       .unit = Unit::TrainStep,
       .on_tiny = "ffn_gate=fused precision=bf16 weights16=kept",
       .gates = {Gate::SameFunction},
       .levels = {{"none",
                   "kernels of their own",
                   [](TrainConfig& c) { c.epilogue = Epilogue::None; },
                   "epilogue/none"},
                  {"gelu",
                   "ffn_in's product adds the bias and applies GELU, the gradient's product of "
                   "ffn_out applies GELU's; widths that cuBLASLt does not take run none, with an "
                   "alarm",
                   [](TrainConfig& c) { c.epilogue = Epilogue::Gelu; },
                   "epilogue/gelu"},
                  {"gelu_bias",
                   "that product also sums the gradient of ffn_in's bias",
                   [](TrainConfig& c) { c.epilogue = Epilogue::GeluBias; },
                   "epilogue/gelu_bias"},
                  {"all",
                   "a weight gradient's product sums that of every other bias",
                   [](TrainConfig& c) { c.epilogue = Epilogue::All; },
                   "epilogue/all"}},
       .also_compare = {{"gelu", "gelu_bias"}, {"gelu_bias", "all"}},
       .equality = "logits and gradients within rounding",
       .family = "gpt",
       .needs = always({{"family gpt, whose feed-forward has GELU and biases",
                         [](const TrainConfig& c) {
                           return family_of(c).form.feed_forward == FeedForward::Gelu;
                         }},
                        {"ffn_gate = fused, whose kernels its levels replace",
                         [](const TrainConfig& c) { return c.ffn_gate == FfnGate::Fused; }},
                        {"precision = bf16, on a CPU bf16 or fp32",
                         [](const TrainConfig& c) {
                           return c.precision == Precision::Bf16 ||
                                  (c.device == Device::Cpu && c.precision == Precision::Fp32);
                         }},
                        {.words = "weights16 = kept, whose sums of biases' gradients it replaces",
                         .met = [](const TrainConfig& c) { return c.weights16 == Weights16::Kept; },
                         .level = "all"}})},
      {.name = "residual16",
       .summary = "the residual stream and its gradient in 16 bits between the norms, which add "
                  "and norm in fp32",
       .equivalence = Equivalence::Statistical,
       .unit = Unit::TrainStep,
       .on_tiny = "precision=bf16 norms=fused",
       .gates = {Gate::SameFunction},
       .levels = {{"fp32",
                   "the stream is stored in fp32; its gradient for products is rounded beside it",
                   [](TrainConfig& c) { c.residual = Residual::Fp32; },
                   "residual16/fp32"},
                  {"bf16",
                   "every sum of the stream, and every gradient of it, is rounded to bf16 where "
                   "it is stored",
                   [](TrainConfig& c) { c.residual = Residual::Bf16; },
                   "residual16/bf16"}},
       .equality = "logits and gradients within twice the reference's own distance from fp32, or "
                   "1e-2",
       .needs = always(
           {{{"norms = fused and precision = bf16 or fp8",
              "the fused norms alone add to a 16-bit stream in fp32"},
             [](const TrainConfig& c) { return c.norms == Norms::Fused && in_bf16_or_fp8(c); }}}),
       .fast_default = "bf16"},
  };
}

} // namespace assay
