#include "model/families/nsa.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "core/span.h"
#include "model/families/init.h"
#include "model/families/sparse_attention.h"
#include "model/fp8_linear.h"
#include "model/rms_norm.h"
#include "model/segments.h"

namespace assay {

namespace {

struct Block {
  at::Tensor attention_norm; // [d_model]
  SparseAttention attention;
  at::Tensor ffn_norm; // [d_model]
  at::Tensor ffn_in;   // [ffn_dim, d_model]
  at::Tensor ffn_out;  // [d_model, ffn_dim]
};

class Nsa : public Model {
public:
  Nsa(ParameterFactory& make, const TrainConfig& config) {
    const std::int64_t d = config.d_model;
    embedding_ = make.normal("embedding", {config.vocab_size, d}, kEmbeddingStd);
    for (std::size_t i = 0; i < config.pattern.size(); ++i)
      blocks_.push_back(make_block(make, fmt::format("layers.{}.", i), config));
    final_norm_ = make.ones("final_norm", {d});
    head_ = make.normal("head", {config.vocab_size, d}, matrix_std(d));
  }

  at::Tensor forward(const Batch& batch, Attention path) const override {
    const Segments& segments = path == Attention::Varlen ? batch.documents : batch.rows;
    at::Tensor x = at::embedding(embedding_, batch.tokens.view(-1));
    for (const Block& block : blocks_) {
      x = x + block.attention.forward(rms_norm(x, block.attention_norm), segments, path);
      x = x + feed_forward(block, rms_norm(x, block.ffn_norm));
    }
    const Span span("head");
    return at::linear(rms_norm(x, final_norm_), head_); // in 16 bits, also with FP8
  }

private:
  static Block
  make_block(ParameterFactory& make, const std::string& prefix, const TrainConfig& config) {
    const std::int64_t d = config.d_model, hidden = config.ffn_dim;
    const at::Tensor attention_norm = make.ones(prefix + "attention_norm", {d});
    SparseAttention attention(make, prefix + "attention.", config);
    const at::Tensor ffn_norm = make.ones(prefix + "ffn_norm", {d});
    const at::Tensor ffn_in = make.normal(prefix + "ffn_in", {hidden, d}, matrix_std(d));
    const at::Tensor ffn_out =
        make.normal(prefix + "ffn_out", {d, hidden}, residual_std(hidden, config));
    return {attention_norm, std::move(attention), ffn_norm, ffn_in, ffn_out};
  }

  static at::Tensor feed_forward(const Block& block, const at::Tensor& x) {
    const Span span("feed_forward");
    return apply_linear(at::silu(apply_linear(x, block.ffn_in)), block.ffn_out);
  }

  at::Tensor embedding_; // [vocab_size, d_model]
  std::vector<Block> blocks_;
  at::Tensor final_norm_; // [d_model]
  at::Tensor head_;       // [vocab_size, d_model]
};

} // namespace

BuiltModel build_nsa(const TrainConfig& config, at::Generator generator) {
  ParameterFactory make(std::move(generator), torch_device(config.device));
  BuiltModel built;
  built.model = std::make_unique<Nsa>(make, config);
  built.parameters = make.take();
  return built;
}

} // namespace assay
