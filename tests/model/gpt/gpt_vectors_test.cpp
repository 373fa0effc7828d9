// Loss and gradients of family `gpt` against a GPT-2 in plain PyTorch operators
// (make_gpt2_vectors.py), in fp64.
#include "model/gates/gates.h"
#include "tests/model/gpt/gpt_fixture.h"

namespace assay {
namespace gpt_vectors_test {

using namespace testing_model;

constexpr double kNear = 1e-11; // the vectors have 13 digits

// `path`: documents isolated, or rows. The levels of `config` compute the same function.
void expect_vectors(TrainConfig config, Attention path) {
  config = value_or_throw(resolve(config));
  const nlohmann::json& expected =
      gpt2_vectors().at(path == Attention::Varlen ? "varlen" : "packed");
  const BuiltModel built = vectors_model(config);
  const at::Tensor loss = built.model->loss(vectors_batch(config), path, {});
  EXPECT_NEAR(loss.item<double>(), expected.at("loss"), kNear);
  loss.backward();
  const nlohmann::json& gradients = expected.at("gradients");
  EXPECT_EQ(built.parameters.size(), gradients.size());
  for (const Parameter& p : built.parameters) {
    const at::Tensor gradient =
        at::tensor(gradients.at(p.name).get<std::vector<double>>(), at::kDouble);
    EXPECT_LE(relative_rms(p.tensor.grad().view(-1), gradient), kNear) << p.name;
  }
}

TEST(GptVectors, DocumentsAreThoseOfPyTorch) {
  expect_vectors(vectors_config(), Attention::Varlen);
}

TEST(GptVectors, RowsAreThoseOfPyTorch) {
  expect_vectors(vectors_config(), Attention::Packed);
  expect_vectors(vectors_config(), Attention::MaskDense);
}

TEST(GptVectors, TheLossInChunksIsThatOfPyTorch) {
  TrainConfig config = vectors_config();
  config.loss_chunk_mib = 64;
  expect_vectors(config, Attention::Varlen);
}

TEST(GptVectors, TheFusedGeluIsThatOfPyTorch) {
  TrainConfig config = vectors_config();
  config.ffn_gate = FfnGate::Fused;
  expect_vectors(config, Attention::Varlen);
}

TEST(GptVectors, ProductsWithGeluAreThoseOfPyTorch) {
  for (const Epilogue epilogue : {Epilogue::Gelu, Epilogue::GeluBias}) {
    TrainConfig config = vectors_config();
    config.ffn_gate = FfnGate::Fused;
    config.epilogue = epilogue;
    expect_vectors(config, Attention::Varlen);
  }
}

TEST(GptVectors, FusedLayerNormsAreThoseOfPyTorch) {
  TrainConfig config = vectors_config();
  config.norms = Norms::Fused;
  expect_vectors(config, Attention::Varlen);
}

TEST(GptVectors, AllFusedFormsTogetherAreThoseOfPyTorch) {
  TrainConfig config = vectors_config();
  config.norms = Norms::Fused;
  config.ffn_gate = FfnGate::Fused;
  config.loss_chunk_mib = 64;
  expect_vectors(config, Attention::Packed);
}

} // namespace gpt_vectors_test
} // namespace assay
