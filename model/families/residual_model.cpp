#include "model/families/residual_model.h"

#include <fmt/format.h>

#include <tuple>
#include <utility>
#include <vector>

#include "core/span.h"
#include "model/families/init.h"
#include "model/layers/add_norm.h"
#include "model/layers/autocast.h"
#include "model/layers/fp8_linear.h"
#include "model/layers/kept_weights.h"
#include "model/layers/rms_norm.h"
#include "model/layers/swiglu.h"
#include "model/layout/segments.h"

namespace assay {

namespace {

struct Block {
  at::Tensor mixer_norm; // [d_model]
  Mixer mixer;
  at::Tensor ffn_norm; // [d_model]
  at::Tensor ffn_in;   // as FeedForward defines
  at::Tensor ffn_out;  // [d_model, ffn_dim]
};

class ResidualModel : public Model {
public:
  ResidualModel(ParameterFactory& make, const TrainConfig& config, const ResidualForm& form)
      : feed_forward_(form.feed_forward), norms_(config.norms), ffn_gate_(config.ffn_gate),
        residual_(config.residual), loss_chunk_mib_(config.loss_chunk_mib) {
    const std::int64_t d = config.d_model;
    embedding_ = make.normal("embedding", {config.vocab_size, d}, kEmbeddingStd);
    for (std::size_t i = 0; i < config.pattern.size(); ++i)
      blocks_.push_back(
          make_block(make, fmt::format("layers.{}.", i), config.pattern[i], config, form));
    final_norm_ = make.ones("final_norm", {d});
    head_ = make.normal("head", {config.vocab_size, d}, matrix_std(d));
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
    const Segments& segments = path == Attention::Varlen ? batch.documents : batch.rows;
    at::Tensor x = at::embedding(embedding_, batch.tokens.view(-1));
    if (residual_ == Residual::Bf16) x = x.to(product_type(x)); // fp32 without autocast
    at::Tensor branch;                                          // what the last layer adds to x
    for (const Block& block : blocks_) {
      branch = block.mixer(next_norm(x, branch, block.mixer_norm), segments, path);
      branch = feed_forward(block, next_norm(x, branch, block.ffn_norm));
    }
    return next_norm(x, branch, final_norm_);
  }

  at::Tensor logits(const at::Tensor& last) const {
    const Span span("head");
    return linear16(last, head_); // in 16 bits, also with FP8
  }

  static Block make_block(ParameterFactory& make,
                          const std::string& prefix,
                          char kind,
                          const TrainConfig& config,
                          const ResidualForm& form) {
    const std::int64_t d = config.d_model, hidden = config.ffn_dim;
    const std::int64_t rows = form.feed_forward == FeedForward::SwiGlu ? 2 * hidden : hidden;
    Block block; // parameters are drawn in the order of these lines
    block.mixer_norm = make.ones(prefix + form.mixer_norm, {d});
    block.mixer = form.make_mixer(make, prefix, kind);
    block.ffn_norm = make.ones(prefix + "ffn_norm", {d});
    block.ffn_in = make.normal(prefix + "ffn_in", {rows, d}, matrix_std(d));
    block.ffn_out = make.normal(prefix + "ffn_out", {d, hidden}, residual_std(hidden, config));
    return block;
  }

  // Adds `branch` to x and returns the normed sum.
  at::Tensor next_norm(at::Tensor& x, const at::Tensor& branch, const at::Tensor& weight) const {
    if (norms_ == Norms::Fused) {
      count(x.scalar_type() == at::kBFloat16 ? "residual16/bf16" : "residual16/fp32");
      at::Tensor normed;
      std::tie(x, normed) = add_norm(x, branch, weight);
      return normed;
    }
    const Span span("norms/ops");
    if (branch.defined()) x = x + branch;
    return rms_norm(x, weight);
  }

  at::Tensor feed_forward(const Block& block, const at::Tensor& x) const {
    const Span span("feed_forward");
    const at::Tensor in = apply_linear(x, block.ffn_in);
    if (feed_forward_ == FeedForward::Silu) return apply_linear(at::silu(in), block.ffn_out);
    if (ffn_gate_ == FfnGate::Fused) return apply_linear(fused_swiglu(in), block.ffn_out);
    const Span gate("ffn_gate/ops");
    const std::vector<at::Tensor> halves = in.chunk(2, 1);
    return apply_linear(at::silu(halves[0]) * halves[1], block.ffn_out);
  }

  FeedForward feed_forward_;
  Norms norms_;
  FfnGate ffn_gate_;
  Residual residual_;
  std::int64_t loss_chunk_mib_; // 0: all logits at once
  at::Tensor embedding_;        // [vocab_size, d_model]
  std::vector<Block> blocks_;
  at::Tensor final_norm_; // [d_model]
  at::Tensor head_;       // [vocab_size, d_model]
};

} // namespace

BuiltModel
build_residual_model(const TrainConfig& config, at::Generator generator, const ResidualForm& form) {
  ParameterFactory make(std::move(generator), torch_device(config.device));
  BuiltModel built;
  built.model = std::make_unique<ResidualModel>(make, config, form);
  built.parameters = make.take();
  return built;
}

} // namespace assay
