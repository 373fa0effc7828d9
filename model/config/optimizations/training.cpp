// Rows of optimizations(). Loss, update, evaluation, and the step as a whole.
#include "model/config/optimizations/rows.h"

#include "model/config/step_graph.h"

namespace assay {

std::vector<Optimization> training_rows() {
  return {
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
       .equality = "losses of training and evaluation, and gradients, within rounding",
       .fast_default = "chunked"},
      {.name = "recompute",
       .summary = "activation checkpointing: layers keep their input alone and compute the rest "
                  "again in the backward pass; less memory for more time",
       .equivalence = Equivalence::Math,
       .unit = Unit::TrainStep,
       .gates = {Gate::SameFunction},
       .levels = {{"none",
                   "all layers keep what their backward pass needs",
                   [](TrainConfig& c) { c.recompute_every = 0; },
                   "recompute/none"},
                  {"every_4",
                   "every fourth layer keeps its input alone, the first among them",
                   [](TrainConfig& c) { c.recompute_every = 4; },
                   "recompute/every_4"},
                  {"every_2",
                   "every second layer",
                   [](TrainConfig& c) { c.recompute_every = 2; },
                   "recompute/every_2"},
                  {"every_1",
                   "all layers",
                   [](TrainConfig& c) { c.recompute_every = 1; },
                   "recompute/every_1"}},
       .also_compare = {{"every_4", "every_2"}, {"every_2", "every_1"}},
       .equality = "logits and gradients within rounding",
       .needs =
           always({{{"precision other than fp8, ranks = 1 and step_graph = off",
                     "casts to FP8 and averages over ranks happen once a pass, and no graph of "
                     "a pass in a pass was tried"},
                    [](const TrainConfig& c) {
                      return c.precision != Precision::Fp8 && c.ranks == 1 &&
                             c.step_graph == StepGraph::Off;
                    }}})},
      {.name = "weights16",
       .summary = "16-bit copies of the weights that products take: cast for every use, or kept "
                  "and written by every update",
       .equivalence = Equivalence::Math,
       .unit = Unit::TrainStep,
       .on_tiny = "precision=bf16",
       .gates = {Gate::SameFunction, Gate::Loss, Gate::Copies},
       .levels = {{"cast",
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
       .needs = {{{"precision bf16, fp16 or fp8", "in fp32 no product takes 16 bits"},
                  [](const TrainConfig& c) { return c.precision != Precision::Fp32; }}},
       .fast_default = "kept"},
      {.name = "product_choice",
       .summary = "the algorithm of each product in bf16: the library's first proposal, or the "
                  "fastest of eight by timing on the product's own operands",
       .equivalence = Equivalence::Math,
       .unit = Unit::TrainStep,
       .on_tiny = "device=cuda precision=bf16 weights16=kept",
       .gates = {Gate::SameFunction, Gate::Loss},
       .levels = {{"heuristic",
                   "what cuBLAS chooses",
                   [](TrainConfig& c) { c.product_choice = ProductChoice::Heuristic; },
                   "product_choice/heuristic"},
                  {"timed",
                   "cuBLASLt's fastest, chosen at the first product of a shape; products that add "
                   "a bias, and those in FP8, keep the library's choice",
                   [](TrainConfig& c) { c.product_choice = ProductChoice::Timed; },
                   "product_choice/timed"}},
       .equality = "logits, gradients and losses within rounding",
       .needs = {{{"device = cuda", "a CPU's products have one algorithm"},
                  [](const TrainConfig& c) { return c.device == Device::Cuda; }},
                 {"precision bf16 or fp8, and weights16 = kept, whose products it chooses for",
                  [](const TrainConfig& c) {
                    return in_bf16_or_fp8(c) && c.weights16 == Weights16::Kept;
                  }}}},
      {.name = "fp8",
       .summary = "products of all linears but the head in 8-bit floats, with one scale per tensor "
                  "taken from the tensor itself or from earlier steps",
       .equivalence = Equivalence::Statistical,
       .unit = Unit::TrainStep,
       .gates = {Gate::SameFunction},
       .levels = {{"bf16",
                   "products of 16-bit operands",
                   [](TrainConfig& c) {
                     c.precision = Precision::Bf16;
                     c.fp8_scaling = Fp8Scaling::Current;
                   },
                   "fp8/off"},
                  {"fp8",
                   "e4m3 forward, e5m2 for gradients; on a GPU compute capability 8.9 or more, the "
                   "same casts and products of the cast values on a CPU",
                   [](TrainConfig& c) {
                     c.precision = Precision::Fp8;
                     c.fp8_scaling = Fp8Scaling::Current;
                   },
                   "fp8/current"},
                  {"fp8_delayed",
                   "the same with the scales of inputs and gradients from the largest values of "
                   "the last 1024 steps; on a GPU fused SwiGLU then writes FP8 alone",
                   [](TrainConfig& c) {
                     c.precision = Precision::Fp8;
                     c.fp8_scaling = Fp8Scaling::Delayed;
                   },
                   "fp8/delayed"}},
       .also_compare = {{"fp8", "fp8_delayed"}},
       .equality = "linears within 5e-2 of fp64, their gradients within 8e-2; logits and gradients "
                   "within 32 times the reference's own distance from fp32, at most 0.5",
       .needs = {{{"d_model, ffn_dim, heads * head_dim and, in latent attention, kv_rank multiples "
                   "of 16",
                   "other linears stay in 16 bits"},
                  [](const TrainConfig& c) {
                    return c.d_model % 16 == 0 && c.ffn_dim % 16 == 0 &&
                           c.heads * c.head_dim % 16 == 0 &&
                           (!has_layer(c, 'M') || c.kv_rank % 16 == 0);
                  }}}},
      {.name = "update_pass",
       .summary = "gradient clipping, AdamW, EMA and 16-bit copies in one pass over the weights",
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
                   "gradients; a skipped update changes no bit of weights and moments",
       .needs = {{.words = {"optimizer = adamw", "Muon's matrices are updated apart"},
                  .met = [](const TrainConfig& c) { return c.optimizer == OptimizerKind::Adamw; },
                  .level = "one_pass",
                  .always = true}},
       .fast_default = "one_pass"},
      {.name = "muon_form",
       .summary = "Newton-Schulz iterations of Muon in products over all matrices of one size",
       .equivalence = Equivalence::Math,
       .unit = Unit::TrainStep,
       .on_tiny = "optimizer=muon",
       .on_cuda = "precision=bf16 update_pass=foreach",
       .gates = {Gate::Update},
       .levels = {{"per_matrix",
                   "fifteen products of every matrix, one after the other",
                   [](TrainConfig& c) { c.muon_form = MuonForm::PerMatrix; },
                   "muon/per_matrix"},
                  {"batched",
                   "fifteen batched products for all matrices of one size, and multi-tensor "
                   "kernels for their momentum",
                   [](TrainConfig& c) { c.muon_form = MuonForm::Batched; },
                   "muon/batched"}},
       .equality = "weights, momentum and average within rounding after updates with the same "
                   "gradients; a skipped update changes no bit of weights and moments",
       .needs = {{"optimizer = muon",
                  [](const TrainConfig& c) { return c.optimizer == OptimizerKind::Muon; }}}},
      {.name = "clip_read",
       .summary = "clipping without a wait of the host: the factor is computed on the device and "
                  "always applied",
       .equivalence = Equivalence::Math,
       .unit = Unit::TrainStep,
       .on_cuda = "update_pass=foreach",
       .gates = {Gate::Update},
       .levels = {{"host",
                   "the host reads the norm, and scales the gradients only where it exceeds the "
                   "limit",
                   [](TrainConfig& c) { c.clip_read = ClipRead::Host; },
                   "clip_read/host"},
                  {"device",
                   "min(1, limit / norm) stays a tensor, with which all gradients are scaled",
                   [](TrainConfig& c) { c.clip_read = ClipRead::Device; },
                   "clip_read/device"}},
       .equality = "weights, moments and average within rounding after updates with the same "
                   "gradients",
       .needs = {{{"update_pass = foreach or per_parameter",
                   "one pass clips by itself, on the device"},
                  [](const TrainConfig& c) { return c.update_pass != UpdatePass::OnePass; }},
                 {"grad_clip above 0, or nothing is clipped",
                  [](const TrainConfig& c) { return c.grad_clip > 0; }}}},
      {.name = "loss_read",
       .summary = "steps that read no loss back to the host, so that it never waits for the device",
       .equivalence = Equivalence::Bitwise,
       .unit = Unit::TrainStep,
       .gates = {Gate::Training},
       .levels = {{"micro_batch",
                   "`loss.item()` after the backward pass of every micro-batch",
                   [](TrainConfig& c) { c.loss_read = LossRead::MicroBatch; },
                   "loss_read/micro_batch"},
                  {"never",
                   "losses are added up on the device and read after the step, if at all",
                   [](TrainConfig& c) { c.loss_read = LossRead::Never; },
                   "loss_read/never"}},
       .equality = "loss and weights bit-equal after several steps, or within the reference's own "
                   "noise",
       .needs = {{{"step_graph = off", "the host reads nothing in a graph"},
                  [](const TrainConfig& c) { return c.step_graph == StepGraph::Off; }}}},
      {.name = "grad_scaler",
       .summary = "dynamic loss scaling with device-side unscaling and overflow check",
       .equivalence = Equivalence::Bitwise,
       .unit = Unit::TrainStep,
       .on_tiny = "batch_rows=1",
       .gates = {Gate::Scaler},
       .levels = {{"off",
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
       .needs = always(step_graph_needs())},
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
  };
}

} // namespace assay
