#include "model/config/cost/step_cost.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "model/config/shapes/nsa_shape.h"

namespace assay {
namespace step_cost_test {

const OpCost& op(const std::vector<OpCost>& ops, const std::string& name) {
  for (const OpCost& cost : ops)
    if (cost.name == name) return cost;
  static const OpCost none{"none", -1, -1, -1, Peak::Compute};
  ADD_FAILURE() << "no operation " << name;
  return none;
}

// 128 tokens, width 64, vocabulary 256, SwiGLU 96, bf16; one layer of two heads of 16, chunks
// of 32.
StepShape small_delta() {
  StepShape shape;
  shape.tokens = 128;
  shape.d_model = 64;
  shape.vocab_size = 256;
  shape.ffn_dim = 96;
  shape.parameters = 1000;
  shape.layers = {DeltaShape{2, 16, 32, 4}};
  return shape;
}

TEST(StepCost, DeltaLayerByHand) {
  const std::vector<OpCost> ops = step_cost(small_delta());
  // 6 x 128 x (64 x (4 x 32 + 4) + 32 x 64) = 768 x (8448 + 2048)
  EXPECT_DOUBLE_EQ(op(ops, "projections").flops, 768.0 * 10496);
  // 3 x 2 bytes x (128 x (64 + 132) + 64 x 132 + 128 x (32 + 64) + 32 x 64)
  EXPECT_DOUBLE_EQ(op(ops, "projections").bytes, 6.0 * (25088 + 8448 + 12288 + 2048));
  // a token and head 2 (5 x 33 / 2 x 16 + 3 x 16 x 16 + 32 x 32 / 3) = 4858.67; x 3 x 128 x 2
  EXPECT_NEAR(op(ops, "delta rule").flops, 3731456, 1e-6);
  // q k v o and two gates in fp32: 3 x 128 x (4 x 32 + 2 x 2) x 4
  EXPECT_DOUBLE_EQ(op(ops, "delta rule").bytes, 202752);
  EXPECT_EQ(op(ops, "delta rule").peak, Peak::Fp32);
  EXPECT_EQ(op(ops, "delta rule").kernels, 58 + 105 + 6 * 4);
  // 6 x 128 x 3 x 64 x 96
  EXPECT_DOUBLE_EQ(op(ops, "feed forward").flops, 14155776);
  EXPECT_DOUBLE_EQ(op(ops, "head").flops, 6.0 * 128 * 64 * 256);
  EXPECT_DOUBLE_EQ(op(ops, "loss").bytes, 3.0 * 128 * 256 * 2);
  EXPECT_DOUBLE_EQ(op(ops, "optimizer").bytes, 40.0 * 1000);
  EXPECT_DOUBLE_EQ(op(ops, "ema").bytes, 12.0 * 1000);
  EXPECT_NEAR(total_flops(ops), 8060928.0 + 3731456 + 14155776 + 12582912, 1e-6);
  // delta 187, feed forward 13, norms 10 and 3, head 6, loss 9, embedding 3; five products, each
  // with two casts of its weight and a split sum, four of them with two casts of their input;
  // update 14 and average 1
  EXPECT_EQ(total_kernels(ops), 187 + 13 + 13 + 6 + 9 + 3 + 5 * (2 + 2) + 4 * 2 + 14 + 1);
}

// Operators of a layer's inputs, 20 + 34 launches, become a kernel each way and three small ones.
TEST(StepCost, FusedInputsLaunchFiveKernels) {
  TrainConfig config;
  config = value_or_throw(resolve(config)); // GGM
  const std::vector<OpCost> operators = step_cost(step_shape(config));
  config.delta_inputs = DeltaInputs::Fused;
  const std::vector<OpCost> fused = step_cost(step_shape(config));
  EXPECT_EQ(total_kernels(operators) - total_kernels(fused), 2 * (54 - 5));
  EXPECT_DOUBLE_EQ(total_flops(operators), total_flops(fused));
}

// Operators of latent attention's inputs, 18 + 23 launches of which 2 x (7 + 8) rotate: by copies
// 13 + 10 + 2 x 12, by complex numbers 2 x (1 + 2), and fused 2 + 3 in all; with them goes what
// splits and joins operands: of 30 launches beside inputs and attention the products' 12 are left,
// and a sum.
TEST(StepCost, InputsOfLatentAttentionLaunchAsTheirFormSays) {
  TrainConfig config;
  config.pattern = "GMM";
  config = value_or_throw(resolve(config));
  const std::vector<OpCost> operators = step_cost(step_shape(config));
  const auto launches_more = [&](MlaInputs form) {
    config.mla_inputs = form;
    const std::vector<OpCost> ops = step_cost(step_shape(config));
    EXPECT_DOUBLE_EQ(total_flops(ops), total_flops(operators));
    return total_kernels(ops) - total_kernels(operators);
  };
  EXPECT_EQ(launches_more(MlaInputs::RotaryTranspose), 2 * (47 - 30));
  EXPECT_EQ(launches_more(MlaInputs::RotaryComplex), 2 * (6 - 30));
  EXPECT_EQ(launches_more(MlaInputs::Fused), 2 * (6 - 41 - (30 - 12)));
}

// Three chunks of the same head: the same FLOPs; logits cross memory twice less in the loss, the
// weight is read six times and its gradient, 4 bytes an element, written three times and read
// twice.
// One replay for all kernels; bytes and FLOPs stay.
TEST(StepCost, AGraphIsOneLaunchBesideItsInputs) {
  TrainConfig config;
  config.device = Device::Cuda;
  config.precision = Precision::Bf16;
  config.delta_form = DeltaForm::Fused;
  config.delta_inputs = DeltaInputs::Fused;
  config.accumulate = 2;
  config = value_or_throw(resolve(config));
  const std::vector<OpCost> off = step_cost(step_shape(config));
  config.step_graph = StepGraph::On;
  const std::vector<OpCost> documents = step_cost(step_shape(config));
  config.attention = Attention::Packed;
  const std::vector<OpCost> rows = step_cost(step_shape(config));
  EXPECT_EQ(total_kernels(rows), 3 + 2 * 2);             // rate, replay, results; tokens, targets
  EXPECT_EQ(total_kernels(documents), 3 + 2 * (2 + 10)); // and the layout of documents
  TrainConfig sparse;
  sparse.family = "nsa";
  sparse.device = Device::Cuda;
  sparse.precision = Precision::Bf16;
  sparse.step_graph = StepGraph::On;
  EXPECT_EQ(total_kernels(step_cost(step_shape(value_or_throw(resolve(sparse))))),
            3 + 2 + 2 + 3 + 14); // borders, angles, blocks
  EXPECT_GT(total_kernels(off), 500);
  EXPECT_DOUBLE_EQ(total_flops(rows), total_flops(off));
  const auto tokens = static_cast<double>(2 * config.seq_len * config.batch_rows);
  EXPECT_DOUBLE_EQ(op(rows, "graph").bytes, tokens * 2 * 8 * 2);
}

TEST(StepCost, ChunkedLossByHand) {
  StepShape shape = small_delta();
  const std::vector<OpCost> whole = step_cost(shape);
  shape.loss_chunks = 3;
  const std::vector<OpCost> chunked = step_cost(shape);
  EXPECT_DOUBLE_EQ(total_flops(chunked), total_flops(whole));
  EXPECT_DOUBLE_EQ(op(chunked, "head").bytes,
                   3.0 * 2 * 128 * (64 + 256) + (6.0 * 2 + 5 * 4) * 64 * 256);
  EXPECT_DOUBLE_EQ(op(chunked, "loss").bytes, 2.0 * 128 * 256 * 2);
  EXPECT_EQ(op(chunked, "head").kernels + op(chunked, "loss").kernels, 3 * (4 + 2) + 11);
  EXPECT_EQ(op(whole, "casts").kernels - op(chunked, "casts").kernels, 1);
  TrainConfig config;
  config.preset = "base";
  config.precision = Precision::Bf16;
  config.loss_chunk_mib = 64; // chunks of 640 tokens
  EXPECT_EQ(step_shape(value_or_throw(resolve(config))).loss_chunks, 52);
}

// W is cast once an optimizer step, x and dy in every micro-batch; the head stays in bf16.
TEST(StepCost, Fp8LinearsByHand) {
  StepShape shape = small_delta();
  shape.fp8_linears = true;
  shape.micro_batches = 2;
  const std::vector<OpCost> fp8 = step_cost(shape);
  shape.fp8_linears = false;
  const std::vector<OpCost> bf16 = step_cost(shape);
  EXPECT_DOUBLE_EQ(total_flops(fp8), total_flops(bf16));
  EXPECT_EQ(op(fp8, "projections").peak, Peak::Fp8);
  EXPECT_EQ(op(fp8, "feed forward").peak, Peak::Fp8);
  EXPECT_EQ(op(fp8, "head").peak, Peak::Compute);
  // feed forward, 64 -> 192 and 96 -> 64, T = 128: operands 1 byte, y and dx 2, dW 4:
  // (T K + K N + 2 T N) + (T N + K N + 2 T K) + (T N + T K + 4 K N) = 4 T (K + N) + 6 K N
  EXPECT_DOUBLE_EQ(op(fp8, "feed forward").bytes,
                   2.0 * (512 * (64 + 192) + 6 * 64 * 192 + 512 * (96 + 64) + 6 * 96 * 64));
  // Four FP8 linears cast x and dy twice, three of them convert dx to fp32; all weights together; a
  // fill, and the head's four casts twice.
  EXPECT_EQ(op(fp8, "casts").kernels, 2 * (4 * 4 + 3) + 3 + 1 + 2 * 4);
  // From bf16: T (K + N) 6 bytes a micro-batch, 4 where fused norms and SwiGLU find the largest
  // value, which is everywhere but in the gradient of in_proj's result; W's 10 K N once, the head's
  // as without FP8.
  shape.fp8_linears = shape.fused_norms = shape.fused_gate = true;
  EXPECT_DOUBLE_EQ(op(step_cost(shape), "casts").bytes,
                   2.0 * 128 * (4 * (196 + 96 + 256 + 160) + 2 * 132) +
                       10 * (64 * 132 + 32 * 64 + 64 * 192 + 96 * 64) + 2.0 * 2 * 6 * 64 * 256);
  EXPECT_EQ(op(step_cost(shape), "casts").kernels, 2 * (7 + 2) + 3 + 1 + 2 * 2);
  // Delayed scales: one cast each, none of what norms and SwiGLU write, and of SwiGLU's gradient.
  shape.fp8_delayed = true;
  EXPECT_EQ(op(step_cost(shape), "casts").kernels, 2 * 3 + 3 + 1 + 2 * 2);
  EXPECT_DOUBLE_EQ(op(step_cost(shape), "casts").bytes,
                   2.0 * 128 * 4 * (132 + 64 + 64) +
                       10 * (64 * 132 + 32 * 64 + 64 * 192 + 96 * 64) + 2.0 * 2 * 6 * 64 * 256);
  shape.fp8_delayed = false;
  // Two of the four linears of latent attention take one input, a third one in fp32.
  shape.layers = {LatentShape{2, 16, 16, 32, 64.5}};
  EXPECT_EQ(op(step_cost(shape), "casts").kernels, 2 * (2 * 11 + 1 - 6) + 3 + 1 + 2 * 2);
  shape.fused_norms = shape.fused_gate = false;
  // A sum of 24 elements is not a multiple of 16.
  shape.fp8_linears = true;
  shape.layers = {LatentShape{2, 16, 8, 24, 64.5}};
  bool both = false;
  for (const OpCost& cost : step_cost(shape))
    both |= cost.name == "projections" && cost.peak == Peak::Compute &&
            cost.flops == 2.0 * 6 * 128 * 24 * 64;
  EXPECT_TRUE(both);
}

// Tiny `hydra`: four layers with two passes, of which the middle ones take 75 % of the tokens.
// Attention has convolutions of three taps, of heads and of all channels.
TEST(StepCost, RoutedFeedForwardsByHand) {
  TrainConfig config;
  config.family = "hydra";
  const double tokens = 256, product = 6 * tokens * 3 * 128 * 384;
  for (const auto& [routing, passes] : {std::pair("masked", 8.0), std::pair("compacted", 7.0)}) {
    ASSERT_TRUE(set_key(config, "routing", routing));
    const StepShape shape = step_shape(value_or_throw(resolve(config)));
    const std::vector<OpCost> ops = step_cost(shape);
    EXPECT_DOUBLE_EQ(op(ops, "feed forward").flops, passes * product) << routing;
    EXPECT_DOUBLE_EQ(op(ops, "convolutions").flops,
                     4 * 6 * tokens * 3 * (64 * (16 + 64) + 32 * (16 + 32)));
    EXPECT_FALSE(counts_all_launches(shape));
  }
}

// In FP8 the delta rule's linears alone: 64 -> 132 and 32 -> 64.
TEST(StepCost, Fp8OfTheDeltaRuleByHand) {
  StepShape shape = small_delta();
  shape.fp8_linears = shape.fp8_delta_alone = true;
  const std::vector<OpCost> ops = step_cost(shape);
  EXPECT_EQ(op(ops, "projections").peak, Peak::Fp8);
  EXPECT_DOUBLE_EQ(op(ops, "projections").bytes,
                   512 * (64 + 132 + 32 + 64) + 6 * (64 * 132 + 32 * 64));
  EXPECT_EQ(op(ops, "feed forward").peak, Peak::Compute);
}

TEST(StepCost, FormsThatWereNotTracedAreNotCounted) {
  const std::pair<const char*, nlohmann::json> settings[] = {
      {"projections", "split"}, {"qkv_copies", "once"}, {"recompute_every", 1}};
  for (const auto& [setting, value] : settings) {
    TrainConfig config;
    config.family = "gpt";
    EXPECT_TRUE(counts_all_launches(step_shape(value_or_throw(resolve(config)))));
    ASSERT_TRUE(set_key(config, setting, value));
    EXPECT_FALSE(counts_all_launches(step_shape(value_or_throw(resolve(config)))));
  }
}

// Five products have 45,312 weights: no casts of them and of their gradients, which come in fp32.
TEST(StepCost, KeptWeightsByHand) {
  const double weights = 64 * 132 + 32 * 64 + 64 * 192 + 96 * 64 + 64 * 256;
  StepShape shape = small_delta();
  const std::vector<OpCost> cast = step_cost(shape);
  shape.kept_weights = true;
  const std::vector<OpCost> kept = step_cost(shape);
  EXPECT_DOUBLE_EQ(op(cast, "casts").bytes - op(kept, "casts").bytes, 2 * 6 * weights);
  EXPECT_EQ(op(cast, "casts").kernels - op(kept, "casts").kernels, 5 * 2);
  EXPECT_DOUBLE_EQ(op(kept, "head").bytes - op(cast, "head").bytes, 2.0 * 64 * 256);
  EXPECT_DOUBLE_EQ(op(kept, "optimizer").bytes, 40.0 * 1000 + 6 * weights);
  EXPECT_EQ(op(kept, "optimizer").kernels - op(cast, "optimizer").kernels, 1);
  shape.update_pass = UpdatePass::OnePass;
  EXPECT_DOUBLE_EQ(op(step_cost(shape), "optimizer").bytes, 40.0 * 1000 + 2 * weights);
  shape.micro_batches = 2; // casts twice, copies once
  EXPECT_DOUBLE_EQ(op(step_cost(shape), "optimizer").bytes, 40.0 * 1000 + 2 * weights);
}

TEST(StepCost, FormsOfTheUpdateByHand) {
  const auto bytes_of = [](UpdatePass pass, bool ema) {
    StepShape shape = small_delta();
    shape.update_pass = pass, shape.ema = ema;
    double bytes = 0;
    for (const OpCost& cost : step_cost(shape))
      if (cost.name == "optimizer" || cost.name == "ema") bytes += cost.bytes;
    return bytes;
  };
  EXPECT_DOUBLE_EQ(bytes_of(UpdatePass::PerParameter, true), 120.0 * 1000);
  EXPECT_DOUBLE_EQ(bytes_of(UpdatePass::Foreach, true), 52.0 * 1000);
  EXPECT_DOUBLE_EQ(bytes_of(UpdatePass::OnePass, true), 40.0 * 1000);
  EXPECT_DOUBLE_EQ(bytes_of(UpdatePass::OnePass, false), 32.0 * 1000);
  StepShape shape = small_delta();
  shape.update_pass = UpdatePass::OnePass;
  EXPECT_EQ(op(step_cost(shape), "optimizer").kernels, 4);
  EXPECT_TRUE(counts_all_launches(shape));
  shape.update_pass = UpdatePass::PerParameter; // launches follow the number of parameters
  EXPECT_FALSE(counts_all_launches(shape));
}

TEST(StepCost, LatentLayerByHand) {
  StepShape shape = small_delta();
  shape.layers = {LatentShape{2, 16, 8, 24, 64.5}}; // rows of 128
  const std::vector<OpCost> ops = step_cost(shape);
  // 6 x 128 x (64 x 48 + 64 x (24 + 8) + 24 x 64 + 32 x 64)
  EXPECT_DOUBLE_EQ(op(ops, "projections").flops, 768.0 * (3072 + 2048 + 1536 + 2048));
  // B.10 of causal attention, forward: H (d_qk + d_v) (T + 1) = 2 x (24 + 16) x 129 a token
  EXPECT_DOUBLE_EQ(op(ops, "attention").flops, 3.0 * 128 * 2 * 40 * 129);
  // q and k 48 wide, v and o 32 wide, 2 bytes
  EXPECT_DOUBLE_EQ(op(ops, "attention").bytes, 3.0 * 128 * (2 * 48 + 2 * 32) * 2);
}

TEST(StepCost, MicroBatchesRepeatAllButTheUpdate) {
  StepShape shape = small_delta();
  const std::vector<OpCost> one = step_cost(shape);
  shape.micro_batches = 4;
  const std::vector<OpCost> four = step_cost(shape);
  EXPECT_DOUBLE_EQ(total_flops(four), 4 * total_flops(one));
  EXPECT_DOUBLE_EQ(op(four, "optimizer").bytes, op(one, "optimizer").bytes);
  EXPECT_EQ(total_kernels(four), 4 * (total_kernels(one) - 15) + 15);
  shape.ema = false;
  for (const OpCost& cost : step_cost(shape)) EXPECT_NE(cost.name, "ema");
}

// The published 125 M shape, S 2048, and its dense twin.
TEST(StepCost, SparseAttentionAgainstItsDenseTwin) {
  const NsaKeys keys = nsa_keys({32, 16, 64, 16, 512}, 2048);
  StepShape shape;
  shape.tokens = 2048;
  shape.d_model = 768;
  shape.vocab_size = 256;
  shape.ffn_dim = 3072;
  shape.form.feed_forward = FeedForward::Silu;
  shape.parameters = 78'000'000;
  shape.layers = {GroupedShape{12, 2, 64, 3, 32, keys.total(), keys.compressed, 0}};
  const std::vector<OpCost> sparse = step_cost(shape);
  shape.layers = {GroupedShape{12, 2, 64, 1, 0, 1024.5, 0, 0}};
  const std::vector<OpCost> dense = step_cost(shape);
  // a token: 3 x 4 x 768 x 1263.195 + 2 x 768 x 62.570 against 3 x 4 x 768 x 1024.5
  EXPECT_NEAR(op(sparse, "attention").flops / 2048, 3 * 4 * 768 * 1263.1948 + 2 * 768 * 62.5698, 1);
  EXPECT_DOUBLE_EQ(op(dense, "attention").flops, 3.0 * 2048 * 4 * 768 * 1024.5);
  // q 768, k and v 128 for each of 3 branches, out 768
  EXPECT_DOUBLE_EQ(op(sparse, "projections").flops, 6.0 * 2048 * 768 * (768 + 6 * 128 + 768));
  EXPECT_DOUBLE_EQ(op(dense, "projections").flops, 6.0 * 2048 * 768 * (768 + 2 * 128 + 768));
  // 2 groups: 64 -> 32 -> 3
  EXPECT_DOUBLE_EQ(op(sparse, "gates").flops, 6.0 * 2048 * 2 * 32 * (64 + 3));
  EXPECT_DOUBLE_EQ(op(dense, "feed forward").flops, 6.0 * 2048 * 2 * 768 * 3072);
}

// What a step of docs/results/h200/trace launched (mask_dense: 703 kernels in each of 16 steps).
TEST(StepCost, LaunchesAgreeWithACommittedTrace) {
  TrainConfig config;
  config.seq_len = 1024;
  config.batch_rows = 1;
  const StepShape shape = step_shape(value_or_throw(resolve(config)));
  EXPECT_NEAR(static_cast<double>(total_kernels(step_cost(shape))), 703, 0.02 * 703);
}

TrainConfig of_16_rows() {
  TrainConfig config;
  config.device = Device::Cuda;
  config.preset = "base";
  config.precision = Precision::Bf16;
  return config;
}

std::int64_t launches_of(const TrainConfig& config, std::int64_t longest_segment = 0) {
  return total_kernels(step_cost(step_shape(value_or_throw(resolve(config)), longest_segment)));
}

void expect_near(std::int64_t launches, double traced) {
  EXPECT_NEAR(static_cast<double>(launches), traced, 0.1 * traced);
}

// Kernels of a step of docs/results/h200/speed/deltanet_mla-bf16-16-rows.txt: whole rows, and
// documents of which the longest has 14 chunks.
TEST(StepCost, LaunchesOfTheSlowLevelsAgreeWithATrace) {
  expect_near(launches_of(of_16_rows()), 4028);
  expect_near(launches_of(of_16_rows(), 14 * 64), 3164);
}

// Kernels, copies and fills of a step, traced on an H200 with every fast row, documents as
// segments.
TEST(StepCost, LaunchesOfTheFastLevelsAgreeWithATrace) {
  TrainConfig config = of_16_rows();
  config.delta_form = DeltaForm::Fused;
  config.delta_inputs = DeltaInputs::Fused;
  config.mla_inputs = MlaInputs::Fused;
  config.norms = Norms::Fused;
  config.ffn_gate = FfnGate::Fused;
  config.loss_chunk_mib = 256;
  config.weights16 = Weights16::Kept;
  config.update_pass = UpdatePass::OnePass;
  const std::int64_t flash = launches_of(config);
  expect_near(flash, 720);
  config.mla_attention = MlaAttention::Cudnn;
  expect_near(launches_of(config), 708);
  EXPECT_EQ(flash - launches_of(config), 720 - 708);
  config.residual = Residual::Bf16; // casts of the embedding
  EXPECT_EQ(flash - launches_of(config), 720 - 708 - 2);
  config.residual = Residual::Fp32;
  config.mla_attention = MlaAttention::FlashPadded;
  config.step_graph = StepGraph::On; // the graph's nodes, and what is launched beside it
  expect_near(flash + launches_of(config), 735);
}

// Each fused row alone takes launches away, and none adds some.
TEST(StepCost, EveryFusedRowLaunchesLess) {
  const TrainConfig slow = of_16_rows();
  const auto saves = [&](auto change) {
    TrainConfig fast = slow;
    change(fast);
    return launches_of(slow) - launches_of(fast);
  };
  EXPECT_EQ(saves([](TrainConfig& c) { c.delta_form = DeltaForm::Fused; }),
            8 * (163 - 54 - 9 - 6 + 6 * 32 - 5));
  EXPECT_EQ(saves([](TrainConfig& c) { c.ffn_gate = FfnGate::Fused; }), 12 * (13 - 6 - 2));
  // Sums, gated norms, and casts of the inputs of 8 x 3 + 4 x 3 products and the head.
  EXPECT_EQ(saves([](TrainConfig& c) { c.norms = Norms::Fused; }),
            24 * 2 + 8 * (9 - 3) + 2 * (8 * 3 + 4 * 3 + 1));
}

// An element of the stream: fused 28 bytes a norm, with a 16-bit stream 16, both ways; as operators
// 24 for a norm and 24 for a sum.
TEST(StepCost, ResidualStreamByHand) {
  StepShape shape = small_delta();
  const auto bytes = [&] { return op(step_cost(shape), "norms and residuals").bytes; };
  const double elements = 128 * 64;
  EXPECT_DOUBLE_EQ(bytes(), elements * (3 + 2) * 24);
  shape.fused_norms = true;
  EXPECT_DOUBLE_EQ(bytes(), elements * 3 * 28);
  const double embedding = op(step_cost(shape), "embedding").bytes;
  shape.stream_bytes = 2;
  EXPECT_DOUBLE_EQ(bytes(), elements * 3 * 16);
  EXPECT_DOUBLE_EQ(op(step_cost(shape), "embedding").bytes - embedding, elements * 12);
}

// Twelve layers: flash attention and the join of its gradients, or cuDNN and a table of documents.
TEST(StepCost, LaunchesOfGptsAttention) {
  TrainConfig config;
  config.device = Device::Cuda;
  config.family = "gpt";
  config.preset = "gpt2";
  config.precision = Precision::Bf16;
  for (const Attention path : {Attention::Packed, Attention::Varlen}) {
    config.attention = path;
    config.mla_attention = MlaAttention::FlashPadded;
    const std::int64_t flash = launches_of(config);
    config.mla_attention = MlaAttention::Cudnn;
    EXPECT_EQ(flash - launches_of(config), 12 * (path == Attention::Packed ? 5 - 4 : 5 - 4 - 3));
    config.mla_attention = MlaAttention::Efficient;
    EXPECT_EQ(flash - launches_of(config), 12 * (5 - 4));
    EXPECT_TRUE(counts_all_launches(step_shape(value_or_throw(resolve(config)))));
    config.mla_attention = MlaAttention::Math;
    EXPECT_FALSE(counts_all_launches(step_shape(value_or_throw(resolve(config)))));
  }
}

// Beside the fused kernels of GELU, 1 + 2, and a sum of 2 for every other bias: two kernels that
// sum the gradient of GELU's bias and a cast of the bias; or that and a cast of the gradient; then
// no sums.
TEST(StepCost, LaunchesAndBytesOfProductsWithGelu) {
  TrainConfig config;
  config.device = Device::Cuda;
  config.family = "gpt";
  config.preset = "gpt2";
  config.precision = Precision::Bf16;
  config.ffn_gate = FfnGate::Fused;
  config.weights16 = Weights16::Kept;
  const auto at = [&](Epilogue epilogue) {
    config.epilogue = epilogue;
    return step_shape(value_or_throw(resolve(config)));
  };
  const auto launches = [&](Epilogue epilogue) { return total_kernels(step_cost(at(epilogue))); };
  const std::int64_t none = launches(Epilogue::None);
  EXPECT_EQ(launches(Epilogue::Gelu) - none, 12 * (2 + 1 - 3));
  EXPECT_EQ(launches(Epilogue::GeluBias) - none, 12 * (1 + 1 - 3));
  EXPECT_EQ(launches(Epilogue::All) - none, 12 * (1 + 1 - 3 - 3 * 2));
  // A matrix of GELU's inputs is read and written: thrice each way, or once each way and summed.
  const double matrix = 12.0 * 32768 * 3072 * 2;
  const auto bytes = [&](Epilogue epilogue) {
    return op(step_cost(at(epilogue)), "feed forward gate").bytes;
  };
  EXPECT_DOUBLE_EQ(bytes(Epilogue::None), 6 * matrix);
  EXPECT_DOUBLE_EQ(bytes(Epilogue::Gelu), 3 * matrix);
  EXPECT_DOUBLE_EQ(bytes(Epilogue::GeluBias), 2 * matrix);
  // What cuBLASLt launches for a sum was not traced.
  EXPECT_TRUE(counts_all_launches(at(Epilogue::Gelu)));
  EXPECT_FALSE(counts_all_launches(at(Epilogue::GeluBias)));
  EXPECT_FALSE(counts_all_launches(at(Epilogue::All)));
}

// Two biases of attention a layer, each summed in two kernels instead of one.
TEST(StepCost, BiasesOfKeptWeightsTakeTwoKernels) {
  TrainConfig config;
  config.family = "gpt";
  config.precision = Precision::Bf16;
  const auto projections = [&] {
    return op(step_cost(step_shape(value_or_throw(resolve(config)))), "projections").kernels;
  };
  const std::int64_t cast = projections();
  config.weights16 = Weights16::Kept;
  EXPECT_EQ(projections() - cast, 3 * 2);
}

// The family `nsa` and its dense twin differ in attention, projections and gates alone.
TEST(StepCost, OfTheNsaFamily) {
  TrainConfig config;
  config.family = "nsa";
  config.preset = "base";
  config = value_or_throw(resolve(config));
  const StepShape sparse = step_shape(config);
  const auto& layer = std::get<GroupedShape>(sparse.layers.at(11));
  EXPECT_EQ(layer.branches, 3);
  EXPECT_EQ(layer.gate_dim, config.nsa_gate_dim);
  EXPECT_NEAR(layer.keys, 1263.195, 0.001);
  EXPECT_EQ(sparse.form.feed_forward, FeedForward::Silu);
  config.nsa_attention = NsaAttention::Dense;
  const StepShape dense = step_shape(config);
  EXPECT_DOUBLE_EQ(std::get<GroupedShape>(dense.layers.at(0)).keys, 1024.5);
  EXPECT_GT(total_flops(step_cost(sparse)), total_flops(step_cost(dense)));
  EXPECT_LT(dense.parameters, sparse.parameters);
}

TEST(StepCost, OfAConfiguration) {
  TrainConfig config;
  config.preset = "base";
  config.precision = Precision::Bf16;
  config = value_or_throw(resolve(config));
  const StepShape shape = step_shape(config);
  EXPECT_EQ(shape.tokens, 16 * 2048);
  EXPECT_EQ(shape.layers.size(), 12u);
  EXPECT_EQ(std::get<DeltaShape>(shape.layers[0]).scan_steps, 32);
  EXPECT_EQ(std::get<DeltaShape>(step_shape(config, 100).layers[0]).scan_steps, 2);
  EXPECT_EQ(shape.parameters, model_size(config).parameters);
  // Matrices that take part in products: all parameters but the embedding, norms, convolutions and
  // decays. 6 FLOPs each and token, and attention and delta rule beside them.
  const double products = total_flops(step_cost(shape));
  const double without_embedding =
      static_cast<double>(shape.parameters - config.vocab_size * config.d_model);
  EXPECT_GT(products, 6 * 0.99 * without_embedding * static_cast<double>(shape.tokens));
  EXPECT_LT(products, 6 * 1.25 * without_embedding * static_cast<double>(shape.tokens));
}

} // namespace step_cost_test
} // namespace assay
