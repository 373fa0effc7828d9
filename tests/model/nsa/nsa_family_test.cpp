// The family `nsa` in the trainer: configuration, gates on whole models, generation, precision, and
// its dense twin. Learning from text and exact resume: family_training_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/config/shapes/nsa_shape.h"
#include "model/gates/code_path.h"
#include "model/gates/gates.h"
#include "model/nsa/nsa.h"
#include "model/training/generate.h"
#include "tests/model/event_counts.h"
#include "tests/model/model_fixture.h"

namespace assay {
namespace nsa_family_test {

using testing_model::ragged_batch;
using testing_model::small_nsa;

TrainConfig nsa_config(const char* preset = "tiny") {
  TrainConfig config;
  config.family = "nsa";
  config.preset = preset;
  return config;
}

TrainConfig resolved(const TrainConfig& config) {
  return value_or_throw(resolve(config));
}

TEST(NsaConfig, PresetsResolveAndCountTheirParameters) {
  for (const char* preset : {"tiny", "small"}) {
    for (const NsaAttention attention : {NsaAttention::Nsa, NsaAttention::Dense}) {
      TrainConfig config = nsa_config(preset);
      config.nsa_attention = attention;
      config = resolved(config);
      std::int64_t parameters = 0;
      const Trainer trainer(config);
      for (const Parameter& p : trainer.parameters()) parameters += p.tensor.numel();
      EXPECT_EQ(parameters, model_size(config).parameters) << preset;
    }
  }
  EXPECT_LE(model_size(resolved(nsa_config())).parameters, 1'000'000);
  const TrainConfig base = resolved(nsa_config("base"));
  EXPECT_EQ(base.head_dim, 64);
  EXPECT_EQ(base.nsa_window, 512);
  EXPECT_NEAR(static_cast<double>(model_size(base).parameters), 78e6, 1e6);
}

TEST(NsaConfig, ImpossibleShapesNameTheKey) {
  const auto message = [](const char* key, std::int64_t value) {
    TrainConfig config = nsa_config();
    if (const Result<bool> set = set_key(config, key, value); !set) return set.error().message;
    const Result<TrainConfig> result = resolve(config);
    EXPECT_FALSE(result) << key;
    return result ? std::string() : result.error().message;
  };
  EXPECT_NE(message("kv_groups", 3).find("'kv_groups' (3) must divide"), std::string::npos);
  EXPECT_NE(message("nsa_stride", 3).find("'nsa_stride' (3)"), std::string::npos);
  EXPECT_NE(message("nsa_select_count", 2).find("at least 3"), std::string::npos);
  EXPECT_NE(message("nsa_window", -1).find("'nsa_window'"), std::string::npos);
  EXPECT_NE(message("rope_dim", 16).find("'rope_dim' (16)"), std::string::npos);
  EXPECT_NE(message("head_dim", 7).find("even"), std::string::npos);
  TrainConfig form = nsa_config();
  form.nsa_form = NsaForm::PerToken;
  EXPECT_TRUE(resolve(form));
  form.nsa_ranges = NsaRanges::V2a;
  EXPECT_NE(resolve(form).error().message.find("'nsa_ranges' must be direct"), std::string::npos);
  form.nsa_ranges = NsaRanges::Direct;
  form.nsa_inputs = NsaInputForm::Fused;
  EXPECT_NE(resolve(form).error().message.find("'nsa_inputs' = fused needs nsa_form = batched"),
            std::string::npos);
  EXPECT_NE(message("kv_rank", 8).find("belongs to family deltanet_mla"), std::string::npos);
  TrainConfig config = nsa_config();
  config.pattern = "NG";
  EXPECT_NE(resolve(config).error().message.find("takes N only"), std::string::npos);
  TrainConfig other;
  other.kv_groups = 2;
  EXPECT_NE(resolve(other).error().message.find("belongs to family nsa"), std::string::npos);
  other = TrainConfig();
  other.family = "nsaa";
  EXPECT_NE(resolve(other).error().message.find("did you mean 'nsa'"), std::string::npos);
}

TEST(NsaConfig, JsonKeepsEveryKey) {
  TrainConfig config = small_nsa(NsaAttention::Dense);
  const TrainConfig again = resolved(value_or_throw(config_from_json(to_json(config))));
  EXPECT_EQ(to_json(again), to_json(config));
  EXPECT_EQ(again.nsa_attention, NsaAttention::Dense);
}

// Dense attention reads (S + 1) / 2 keys: at the shape of nsa base fewer than NSA at S 2048, more
// at 3072.
TEST(NsaConfig, CrossoverWithDenseLiesBetween2048And3072) {
  const NsaShape shape = nsa_shape(resolved(nsa_config("base")));
  EXPECT_NEAR(nsa_keys(shape, 1024).total(), 927, 1);
  EXPECT_GT(nsa_keys(shape, 2048).total(), 1024.5);
  EXPECT_LT(nsa_keys(shape, 3072).total(), 1536.5);
}

class NsaForm : public testing::TestWithParam<NsaAttention> {};

TEST_P(NsaForm, IsCausalAndIsolatesDocuments) {
  const TrainConfig config = small_nsa(GetParam());
  Trainer trainer(config);
  const Batch batch = ragged_batch(config);
  for (int i = 0; i < 3; ++i) (void)trainer.step({batch}); // gates away from 1/3
  const LogitsFunction logits = [&](const Batch& b) { return trainer.logits(b); };
  for (const GateResult& gate : {isolation_gate(logits, batch, batch.documents, config.vocab_size),
                                 causality_gate(logits, batch, config.vocab_size),
                                 per_document_gate(logits, batch, config)})
    EXPECT_TRUE(gate.passed) << gate.name << " " << gate.value << " " << gate.detail;
}

TEST_P(NsaForm, EveryParameterGetsAGradient) {
  const TrainConfig config = small_nsa(GetParam());
  Trainer trainer(config);
  const Batch batch = ragged_batch(config);
  (void)trainer.step({batch}); // gate_out starts at 0, so gate_in has none before
  const std::vector<at::Tensor> gradients = trainer.gradients(batch);
  for (std::size_t i = 0; i < gradients.size(); ++i)
    EXPECT_GT(gradients[i].norm().item<double>(), 0) << trainer.parameters()[i].name;
}

TEST_P(NsaForm, LowPrecisionIsNearFp32) {
  TrainConfig exact = small_nsa(GetParam()), low = exact;
  for (const Precision precision : {Precision::Bf16, Precision::Fp16}) {
    low.precision = precision;
    Trainer a(exact), b(low);
    const Batch batch = ragged_batch(exact);
    EXPECT_LE(relative_rms(b.logits(batch), a.logits(batch)), 2e-2);
    EXPECT_GT(relative_rms(b.logits(batch), a.logits(batch)), 1e-6);
    EXPECT_TRUE(b.step({batch}).finite());
  }
}

TEST_P(NsaForm, GeneratesDeterministically) {
  const TrainConfig config = small_nsa(GetParam());
  Trainer trainer(config);
  const Sampling sampling{.max_tokens = 55, .temperature = 0.9, .top_k = 5, .seed = 7};
  const std::vector<std::int64_t> ids = generate(trainer, {1, 2, 3}, sampling);
  EXPECT_EQ(ids, generate(trainer, {1, 2, 3}, sampling));
  EXPECT_EQ(ids.size(), 55U); // longer than seq_len
}

// Host reads: one a layer and step; with every50 of the first step and the 51st.
TEST(NsaStats, ReadsAsOftenAsTheLevelSays) {
  const Optimization& row = *optimizations().find("nsa_stats");
  const auto seen = [&](NsaStats stats) {
    TrainConfig config = small_nsa();
    config.nsa_stats = stats;
    return record_code_path(row, config, {ragged_batch(config)}).counters; // of a second step
  };
  EXPECT_EQ(seen(NsaStats::EveryStep).at("nsa_stats/read"), 2); // of two layers
  EXPECT_EQ(seen(NsaStats::Every50).count("nsa_stats/read"), 0);
  EXPECT_EQ(seen(NsaStats::Every50).at("nsa_stats/every50"), 2) << "engaged where it does not read";
  TrainConfig config = small_nsa();
  config.nsa_stats = NsaStats::Every50;
  const Batch batch = ragged_batch(config);
  Trainer trainer(config);
  std::vector<int> read_in;
  for (int step = 0; step < 52; ++step) {
    EventCounts counts;
    const SpanSinkGuard counting(counts);
    (void)trainer.step({batch});
    if (counts.seen["nsa_stats/read"] > 0) read_in.push_back(step);
  }
  EXPECT_EQ(read_in, (std::vector<int>{0, 50}));
  const at::Tensor gates = at::tensor({0.5, 0.25, 0.25, 0.1, 0.2, 0.7}, at::kDouble);
  const at::Tensor blocks = at::tensor({0, 1, -1, 0, -1, -1}, at::kLong);
  const NsaStatistics read = read_nsa_statistics(gates.view({1, 2, 3}), blocks.view({1, 2, 3}));
  EXPECT_NEAR(read.gates[0], 0.3, 1e-12);
  EXPECT_NEAR(read.gates[2], 0.475, 1e-12);
  EXPECT_EQ(read.selected_blocks, 1.5);
}

// Without document isolation the rows are the segments, on every path.
TEST_P(NsaForm, PackedPathsTakeRowsAsSegments) {
  const TrainConfig config = small_nsa(GetParam());
  const Trainer trainer(config);
  const Batch batch = ragged_batch(config);
  const at::Tensor packed = trainer.logits(batch, Attention::Packed);
  EXPECT_LE(relative_rms(packed, trainer.logits(batch, Attention::MaskDense)), 1e-5);
  EXPECT_GT(relative_rms(packed, trainer.logits(batch, Attention::Varlen)), 1e-3);
  const LogitsFunction logits = [&](const Batch& b) {
    return trainer.logits(b, Attention::Packed);
  };
  EXPECT_TRUE(isolation_gate(logits, batch, batch.rows, config.vocab_size).passed);
  EXPECT_FALSE(isolation_gate(logits, batch, batch.documents, config.vocab_size).passed);
}

INSTANTIATE_TEST_SUITE_P(All,
                         NsaForm,
                         testing::Values(NsaAttention::Nsa, NsaAttention::Dense),
                         [](const auto& row) {
                           return row.param == NsaAttention::Nsa ? "nsa" : "dense";
                         });

// The twin differs in its attention only, and where a document fits into the window and into the
// selected blocks all of its keys are read by both branches: same keys, same values, gate on them,
// same outputs.
TEST(Nsa, ShortDocumentsAttendDensely) {
  TrainConfig sparse = small_nsa(), dense = small_nsa(NsaAttention::Dense);
  sparse.nsa_window = sparse.seq_len;
  Trainer a(sparse), b(dense);
  const std::int64_t inner = sparse.heads * sparse.head_dim,
                     kv = sparse.kv_groups * sparse.head_dim;
  const at::NoGradGuard no_grad;
  for (const Parameter& p : b.parameters()) {
    const auto in_a = std::find_if(a.parameters().begin(),
                                   a.parameters().end(),
                                   [&](const auto& x) { return x.name == p.name; });
    ASSERT_NE(in_a, a.parameters().end()) << p.name;
    if (!p.name.ends_with("qkv_proj")) {
      in_a->tensor.copy_(p.tensor);
      continue;
    }
    const std::vector<at::Tensor> parts = p.tensor.split_with_sizes({inner, kv, kv}, 0);
    in_a->tensor.copy_(
        at::cat({parts[0], parts[1], parts[1], parts[1], parts[2], parts[2], parts[2]}));
  }
  for (const Parameter& p : a.parameters()) // the window alone
    if (p.name.ends_with("gate_out_bias")) p.tensor.copy_(at::tensor({-1e4, -1e4, 0.0}));
  const Batch batch = ragged_batch(sparse);
  EXPECT_LE(relative_rms(a.logits(batch), b.logits(batch)), 1e-5);
}

} // namespace nsa_family_test
} // namespace assay
