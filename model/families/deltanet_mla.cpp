#include "model/families/deltanet_mla.h"

#include <fmt/format.h>

#include <utility>
#include <variant>
#include <vector>

#include "core/span.h"
#include "model/families/gated_deltanet.h"
#include "model/families/init.h"
#include "model/families/latent_attention.h"
#include "model/fp8_linear.h"
#include "model/rms_norm.h"
#include "model/segments.h"

namespace assay {

namespace {

struct Block {
  at::Tensor mixer_norm; // [d_model]
  std::variant<GatedDeltaNet, LatentAttention> mixer;
  at::Tensor ffn_norm; // [d_model]
  at::Tensor ffn_in;   // [2*ffn_dim, d_model]: gate, then value
  at::Tensor ffn_out;  // [d_model, ffn_dim]
};

class DeltaNetMla : public Model {
public:
  DeltaNetMla(ParameterFactory& make, const TrainConfig& config) {
    const std::int64_t d = config.d_model;
    embedding_ = make.normal("embedding", {config.vocab_size, d}, kEmbeddingStd);
    for (std::size_t i = 0; i < config.pattern.size(); ++i)
      blocks_.push_back(make_block(make, fmt::format("layers.{}.", i), config.pattern[i], config));
    final_norm_ = make.ones("final_norm", {d});
    head_ = make.normal("head", {config.vocab_size, d}, matrix_std(d));
  }

  at::Tensor forward(const Batch& batch, Attention path) const override {
    const Segments& segments = path == Attention::Varlen ? batch.documents : batch.rows;
    at::Tensor x = at::embedding(embedding_, batch.tokens.view(-1));
    for (const Block& block : blocks_) {
      x = x + mix(block, rms_norm(x, block.mixer_norm), segments, path);
      x = x + feed_forward(block, rms_norm(x, block.ffn_norm));
    }
    const Span span("head");
    return at::linear(rms_norm(x, final_norm_), head_); // in 16 bits, also with FP8
  }

private:
  static Block make_block(ParameterFactory& make,
                          const std::string& prefix,
                          char kind,
                          const TrainConfig& config) {
    const std::int64_t d = config.d_model, hidden = config.ffn_dim;
    using Mixer = std::variant<GatedDeltaNet, LatentAttention>;
    const at::Tensor mixer_norm = make.ones(prefix + "mixer_norm", {d});
    Mixer mixer = kind == 'G' ? Mixer(GatedDeltaNet(make, prefix + "delta.", config))
                              : Mixer(LatentAttention(make, prefix + "attention.", config));
    const at::Tensor ffn_norm = make.ones(prefix + "ffn_norm", {d});
    const at::Tensor ffn_in = make.normal(prefix + "ffn_in", {2 * hidden, d}, matrix_std(d));
    const at::Tensor ffn_out =
        make.normal(prefix + "ffn_out", {d, hidden}, residual_std(hidden, config));
    return {mixer_norm, std::move(mixer), ffn_norm, ffn_in, ffn_out};
  }

  static at::Tensor
  mix(const Block& block, const at::Tensor& x, const Segments& segments, Attention path) {
    if (const auto* delta = std::get_if<GatedDeltaNet>(&block.mixer))
      return delta->forward(x, segments);
    return std::get<LatentAttention>(block.mixer).forward(x, segments, path);
  }

  static at::Tensor feed_forward(const Block& block, const at::Tensor& x) {
    const Span span("feed_forward");
    const std::vector<at::Tensor> hidden = apply_linear(x, block.ffn_in).chunk(2, 1);
    return apply_linear(at::silu(hidden[0]) * hidden[1], block.ffn_out);
  }

  at::Tensor embedding_; // [vocab_size, d_model]
  std::vector<Block> blocks_;
  at::Tensor final_norm_; // [d_model]
  at::Tensor head_;       // [vocab_size, d_model]
};

} // namespace

BuiltModel build_deltanet_mla(const TrainConfig& config, at::Generator generator) {
  ParameterFactory make(std::move(generator), torch_device(config.device));
  BuiltModel built;
  built.model = std::make_unique<DeltaNetMla>(make, config);
  built.parameters = make.take();
  return built;
}

} // namespace assay
