#include "model/families/residual_model.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "core/span.h"
#include "model/config/family_config.h"
#include "model/families/init.h"
#include "model/families/routing/experts.h"
#include "model/families/routing/token_routing.h"
#include "model/layers/add_norm.h"
#include "model/layers/attention/attention.h"
#include "model/layers/autocast.h"
#include "model/layers/fp8/fp8_linear.h"
#include "model/layers/gelu.h"
#include "model/layers/gelu_feed_forward.h"
#include "model/layers/layer_hooks.h"
#include "model/layers/layer_norm.h"
#include "model/layers/linear/grouped_linear.h"
#include "model/layers/linear/kept_weights.h"
#include "model/layers/probe.h"
#include "model/layers/recompute.h"
#include "model/layers/rms_norm.h"
#include "model/layers/swiglu.h"
#include "model/layout/segments.h"

namespace assay {

namespace {

struct Norm {
  at::Tensor weight; // [d_model]
  at::Tensor bias;   // the same of a layer norm; undefined: an RMS norm
};

// No linear computes in FP8 while one lives that is `on`.
class Fp8Off {
public:
  explicit Fp8Off(bool on) {
    if (on) guard_.emplace(nullptr);
  }

private:
  std::optional<Fp8Guard> guard_;
};

struct Block {
  std::size_t index = 0;   // of the layer
  bool recomputed = false; // keeps its input alone for the backward pass
  bool fp8_mixer = true;   // false: its linears stay in 16 bits also with precision = fp8
  Norm mixer_norm;
  Mixer mixer;
  Norm ffn_norm;
  at::Tensor ffn_in, ffn_in_bias;   // as FeedForward defines; biases are undefined where the
  at::Tensor ffn_out, ffn_out_bias; // family has none. [d_model, ffn_dim], [d_model]
  Experts experts;                  // what is added to it; none in most models
  TokenRouting routing;             // how often, and for which tokens, the feed-forward is applied
};

Norm make_norm(ParameterFactory& make, const std::string& name, const TrainConfig& config) {
  Norm norm;
  norm.weight = make.ones(name, {config.d_model});
  if (family_of(config).form.layer_norm) norm.bias = make.zeros(name + "_bias", {config.d_model});
  return norm;
}

// Parameters are drawn in the order of these lines.
Block make_block(ParameterFactory& make,
                 std::size_t index,
                 const TrainConfig& config,
                 const ResidualLayers& layers) {
  const std::string prefix = fmt::format("layers.{}.", index);
  const char kind = config.pattern[index];
  const ModelForm& form = family_of(config).form;
  const std::int64_t d = config.d_model, hidden = config.ffn_dim;
  const std::int64_t rows = (ffn_matrices(form.feed_forward) - 1) * hidden;
  Block block;
  block.index = index;
  block.recomputed = is_recomputed(config, index);
  block.fp8_mixer =
      config.fp8_layers == Fp8Layers::All || layer_kind(config, kind).layouts(config).delta_rule;
  block.mixer_norm = make_norm(make, prefix + layers.mixer_norm, config);
  block.mixer = layers.make_mixer(make, prefix, kind);
  block.ffn_norm = make_norm(make, prefix + "ffn_norm", config);
  block.ffn_in = make.normal(prefix + "ffn_in", {rows, d}, matrix_std(d, config));
  if (form.biases) block.ffn_in_bias = make.zeros(prefix + "ffn_in_bias", {rows});
  block.ffn_out = make.normal(prefix + "ffn_out", {d, hidden}, residual_std(hidden, config));
  if (form.biases) block.ffn_out_bias = make.zeros(prefix + "ffn_out_bias", {d});
  if (config.experts > 0) block.experts = Experts(make, prefix, config);
  if (config.recursions > 0) block.routing = TokenRouting(make, prefix, index, config);
  return block;
}

class ResidualModel : public Model {
public:
  ResidualModel(ParameterFactory& make, const TrainConfig& config, const ResidualLayers& layers)
      : form_(family_of(config).form), norms_(config.norms), ffn_gate_(config.ffn_gate),
        epilogue_(config.epilogue), residual_(config.residual),
        fp8_ffn_(config.fp8_layers == Fp8Layers::All), loss_chunk_mib_(config.loss_chunk_mib),
        recompute_every_(config.recompute_every) {
    const std::int64_t d = config.d_model;
    embedding_ = make.normal("embedding", {config.vocab_size, d}, embedding_std(config));
    if (form_.positions)
      positions_ = make.normal("positions", {config.positions, d}, embedding_std(config));
    for (std::size_t i = 0; i < config.pattern.size(); ++i)
      blocks_.push_back(make_block(make, i, config, layers));
    final_norm_ = make_norm(make, "final_norm", config);
    head_ = form_.tied_head ? embedding_
                            : make.normal("head", {config.vocab_size, d}, head_std(config));
  }

  at::Tensor forward(const Batch& batch, Attention path) const override {
    return logits(hidden(batch, path));
  }

  at::Tensor loss(const Batch& batch, Attention path, const LossGradient& gradient) const override {
    const at::Tensor last = hidden(batch, path), targets = batch.targets.view(-1);
    if (loss_chunk_mib_ == 0) {
      const Span span("loss_head/logits");
      return logits_loss(logits(last), targets);
    }
    const Span span("head");
    return chunked_loss(last, head_, targets, loss_chunk_mib_, gradient);
  }

private:
  // What the head takes: [T, d_model].
  at::Tensor hidden(const Batch& batch, Attention path) const {
    const Segments& segments = isolates_documents(path) ? batch.documents : batch.rows;
    at::Tensor x = embedded(batch.tokens.view(-1), segments);
    at::Tensor branch; // what the last layer adds to x
    count_recompute();
    LayerHooks* const hooks = active_layer_hooks();
    for (const Block& block : blocks_) {
      if (hooks != nullptr) hooks->before_layer(block.index);
      if (block.recomputed && at::GradMode::is_enabled())
        std::tie(x, branch) = recomputed(body_of(block, segments, path), {x, branch});
      else
        std::tie(x, branch) = passed(block, {x, branch}, segments, path);
      if (hooks != nullptr) hooks->after_layer(block.index, x, branch);
    }
    return next_norm(x, branch, final_norm_, {});
  }

  Stream passed(const Block& block, Stream stream, const Segments& segments, Attention path) const {
    auto& [x, branch] = stream;
    Probe* const probe = active_probe();
    if (probe != nullptr) {
      probe->layer(block.index);
      probe->activation("stream", branch.defined() ? x + branch : x);
    }
    branch = mixed(block, x, branch, segments, path);
    if (probe != nullptr) probe->activation("mixer", branch);
    branch = fed_forward(block, x, branch, segments);
    if (probe != nullptr) probe->activation("feed_forward", branch);
    return stream;
  }

  // With segments of its own: it runs again when the batch may be gone.
  std::shared_ptr<const StreamBody>
  body_of(const Block& block, const Segments& segments, Attention path) const {
    return std::make_shared<const StreamBody>(
        [this, &block, segments, path](const at::Tensor& x, const at::Tensor& branch) {
          return passed(block, {x, branch}, segments, path);
        });
  }

  void count_recompute() const {
    if (!at::GradMode::is_enabled()) return;
    count(recompute_every_ == 0   ? "recompute/none"
          : recompute_every_ == 1 ? "recompute/every_1"
          : recompute_every_ == 2 ? "recompute/every_2"
          : recompute_every_ == 4 ? "recompute/every_4"
                                  : "recompute/every_other");
  }

  // A norm is in the scope of the linear that reads it, for which it may write FP8.
  at::Tensor mixed(const Block& block,
                   at::Tensor& x,
                   const at::Tensor& branch,
                   const Segments& segments,
                   Attention path) const {
    const Fp8Off off(!block.fp8_mixer);
    return block.mixer.run(
        next_norm(x, branch, block.mixer_norm, block.mixer.reader), segments, path);
  }

  at::Tensor fed_forward(const Block& block,
                         at::Tensor& x,
                         at::Tensor branch,
                         const Segments& segments) const {
    const Fp8Off off(!fp8_ffn_);
    if (block.routing.chooses()) return routed(block, x, std::move(branch), segments);
    if (block.experts.defined()) {
      const at::Tensor normed = next_norm(x, branch, block.ffn_norm, {});
      return feed_forward(block, normed) + block.experts.run(normed);
    }
    const bool gelu = form_.feed_forward == FeedForward::Gelu; // whose products may be in 16 bits
    return feed_forward(block,
                        next_norm(x, branch, block.ffn_norm, gelu ? at::Tensor() : block.ffn_in));
  }

  // All passes but for the last one's sum.
  at::Tensor
  routed(const Block& block, at::Tensor& x, at::Tensor branch, const Segments& segments) const {
    const Span span("feed_forward");
    at::Tensor depths;
    for (std::int64_t pass = 0; pass < block.routing.passes(); ++pass) {
      const at::Tensor normed = next_norm(x, branch, block.ffn_norm, {});
      if (pass == 0) depths = block.routing.depths(normed);
      branch = block.routing.run(
          normed, depths, pass, segments, [&](const at::Tensor& rows, const at::Tensor& end) {
            return end.defined() ? feed_forward(block, rows, end) : feed_forward(block, rows);
          });
    }
    return branch;
  }

  at::Tensor embedded(const at::Tensor& tokens, const Segments& segments) const {
    at::Tensor x = at::embedding(embedding_, tokens);
    if (positions_.defined()) x = x + at::embedding(positions_, segments.positions);
    return residual_ == Residual::Bf16 ? x.to(product_type(x)) : x; // fp32 without autocast
  }

  at::Tensor logits(const at::Tensor& last) const {
    const Span span("head");
    return linear16(last, head_); // in 16 bits, also with FP8
  }

  // Adds `branch` to x and returns the normed sum. `reader`: as add_norm()'s `to`.
  at::Tensor next_norm(at::Tensor& x,
                       const at::Tensor& branch,
                       const Norm& norm,
                       const at::Tensor& reader) const {
    if (norms_ == Norms::Fused) {
      count(x.scalar_type() == at::kBFloat16 ? "residual16/bf16" : "residual16/fp32");
      at::Tensor normed;
      std::tie(x, normed) = add_norm(x, branch, norm.weight, norm.bias, reader);
      return normed;
    }
    const Span span("norms/ops");
    if (branch.defined()) x = x + branch;
    return norm.bias.defined() ? layer_norm(x, norm.weight, norm.bias) : rms_norm(x, norm.weight);
  }

  at::Tensor feed_forward(const Block& block, const at::Tensor& x) const {
    const Span span("feed_forward");
    if (form_.feed_forward == FeedForward::Gelu) {
      const GeluWeights weights{block.ffn_in, block.ffn_in_bias, block.ffn_out, block.ffn_out_bias};
      if (const at::Tensor y = gelu_feed_forward(x, weights, epilogue_); y.defined()) return y;
    }
    return apply_linear(activated(block, x), block.ffn_out, block.ffn_out_bias);
  }

  // Of the first end[0] rows, outside of FP8 and of 8-bit integers: as first_rows_linear().
  at::Tensor feed_forward(const Block& block, const at::Tensor& x, const at::Tensor& end) const {
    const Span span("feed_forward");
    const at::Tensor in = first_rows_linear(x, block.ffn_in, end);
    const at::Tensor gated = ffn_gate_ == FfnGate::Fused ? fused_swiglu(in) : swiglu(in);
    return first_rows_linear(gated, block.ffn_out, end);
  }

  at::Tensor activated(const Block& block, const at::Tensor& x) const {
    if (form_.feed_forward == FeedForward::Gelu) return gelu(block, x);
    const at::Tensor in = apply_linear(x, block.ffn_in, block.ffn_in_bias);
    if (form_.feed_forward == FeedForward::Silu) return at::silu(in);
    if (ffn_gate_ == FfnGate::Fused && block.ffn_in_bias.defined()) return fused_swiglu(in);
    if (ffn_gate_ == FfnGate::Fused) return fused_swiglu(in, block.ffn_in, block.ffn_out);
    return swiglu(in);
  }

  static at::Tensor swiglu(const at::Tensor& in) {
    const Span gate("ffn_gate/ops");
    const std::vector<at::Tensor> halves = in.chunk(2, 1);
    return at::silu(halves[0]) * halves[1];
  }

  at::Tensor gelu(const Block& block, const at::Tensor& x) const {
    if (ffn_gate_ == FfnGate::Fused)
      return fused_bias_gelu(apply_linear(x, block.ffn_in), block.ffn_in_bias);
    const at::Tensor in = apply_linear(x, block.ffn_in, block.ffn_in_bias);
    const Span gate("ffn_gate/ops");
    return at::gelu(in, "tanh");
  }

  ModelForm form_;
  Norms norms_;
  FfnGate ffn_gate_;
  Epilogue epilogue_;
  Residual residual_;
  bool fp8_ffn_;                // precision = fp8 is the feed-forwards' too
  std::int64_t loss_chunk_mib_; // 0: all logits at once
  std::int64_t recompute_every_;
  at::Tensor embedding_; // [vocab_size, d_model]
  at::Tensor positions_; // [positions, d_model]; undefined: the family learns none
  std::vector<Block> blocks_;
  Norm final_norm_;
  at::Tensor head_; // [vocab_size, d_model]; the embedding itself where it is tied
};

} // namespace

BuiltModel build_residual_model(const TrainConfig& config,
                                at::Generator generator,
                                const ResidualLayers& layers) {
  ParameterFactory make(std::move(generator), torch_device(config.device));
  BuiltModel built;
  built.model = std::make_unique<ResidualModel>(make, config, layers);
  built.parameters = make.take();
  built.balances = make.take_balances();
  return built;
}

} // namespace assay
