// The kernel launches that model/config/cost/step_cost.cpp claims were counted once, in traces of a
// GPU. The first tests hold the operators that each layer calls on a CPU beside them: whoever
// changes a layer sees its figure fail here instead of a roofline that is silently wrong.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "model/config/cost/step_cost.h"
#include "model/config/fast_defaults.h"
#include "model/gates/code_path.h"
#include "tests/model/model_fixture.h"
#include "tests/paths.h"

namespace assay {
namespace kernel_count_test {

using nlohmann::json;

struct Counts {
  std::int64_t operators = 0, launches = 0;

  Counts minus(const Counts& other) const {
    return {operators - other.operators, launches - other.launches};
  }
};

// They hand on a tensor, or call others that are counted themselves: no kernel of their own.
const std::set<std::string> kWithoutKernel{
    "aten::view",       "aten::_unsafe_view", "aten::reshape",
    "aten::t",          "aten::transpose",    "aten::permute",
    "aten::expand",     "aten::as_strided",   "aten::narrow",
    "aten::select",     "aten::slice",        "aten::split",
    "aten::chunk",      "aten::unbind",       "aten::split_with_sizes",
    "aten::unsqueeze",  "aten::squeeze",      "aten::unflatten",
    "aten::flatten",    "aten::detach",       "aten::alias",
    "aten::empty",      "aten::empty_like",   "aten::empty_strided",
    "aten::linear",     "aten::matmul",       "aten::to",
    "aten::contiguous", "aten::zeros",        "aten::zeros_like",
    "aten::ones_like",  "aten::resolve_conj", "aten::result_type"};

// Of one optimizer step in fp32; rows without inner borders.
Counts count(TrainConfig config) {
  config = value_or_throw(resolve(config));
  const CodePath seen = record_code_path(
      *optimizations().find("grad_scaler"), config, {testing_model::random_batch(config, 3, {})});
  Counts counts;
  for (const auto& [name, calls] : seen.operators)
    if (!kWithoutKernel.contains(name)) counts.operators += calls;
  counts.launches = total_kernels(step_cost(step_shape(config)));
  return counts;
}

TrainConfig tiny(const std::string& family, const std::string& pattern) {
  TrainConfig config;
  config.family = family;
  config.pattern = pattern;
  return config;
}

// One layer: a model of two without a model of one.
Counts layer(TrainConfig config) {
  const Counts one = count(config);
  config.pattern += config.pattern;
  return count(config).minus(one);
}

void expect_counts(const std::string& what, const Counts& counts) {
  static const json expected =
      json::parse(std::ifstream(test::source_dir() + "/tests/model/kernel_counts.json"));
  const json now{{"operators", counts.operators}, {"kernel_launches", counts.launches}};
  EXPECT_EQ(now, expected.value(what, json()))
      << what << " calls other operators, or claims other launches. Count its kernel launches in "
      << "a trace of a GPU, write them into model/config/cost/step_cost.cpp, and both figures into "
      << "tests/model/kernel_counts.json";
}

TEST(KernelCounts, FamilyDeltanetMla) {
  const TrainConfig delta = tiny("deltanet_mla", "G");
  TrainConfig longer = delta;
  longer.seq_len = 192; // three chunks for two
  expect_counts("G", layer(delta));
  expect_counts("G, a chunk more", count(longer).minus(count(delta)));
  TrainConfig latent = tiny("deltanet_mla", "M");
  expect_counts("M", layer(latent));
  latent.mla_inputs = MlaInputs::RotaryTranspose;
  expect_counts("M, rotation by transposes", layer(latent));
  latent.mla_inputs = MlaInputs::RotaryComplex;
  expect_counts("M, rotation by complex numbers", layer(latent));
  latent.mla_inputs = MlaInputs::Fused;
  expect_counts("M, fused inputs", layer(latent));
  expect_counts("step without layers", count(delta).minus(layer(delta)));
  TrainConfig chunked = delta;
  chunked.loss_chunk_mib = 64; // one chunk here
  expect_counts("loss in a chunk more than all logits", count(chunked).minus(count(delta)));
}

TEST(KernelCounts, FamilyNsa) {
  TrainConfig sparse = tiny("nsa", "N");
  expect_counts("N", layer(sparse));
  TrainConfig fused = sparse;
  fused.nsa_inputs = NsaInputForm::Fused;
  expect_counts("N, fused inputs", layer(fused));
  sparse.nsa_attention = NsaAttention::Dense;
  expect_counts("N, dense", layer(sparse));
}

TEST(KernelCounts, FamilyGpt) {
  const TrainConfig dense = tiny("gpt", "A");
  expect_counts("A", layer(dense));
  TrainConfig fused = dense;
  fused.ffn_gate = FfnGate::Fused;
  expect_counts("A, fused GELU", layer(fused));
  fused.epilogue = Epilogue::Gelu;
  expect_counts("A, GELU in products", layer(fused));
  fused.epilogue = Epilogue::GeluBias;
  expect_counts("A, GELU and its bias in products", layer(fused));
  fused = dense;
  fused.norms = Norms::Fused;
  expect_counts("A, fused norms", layer(fused));
  expect_counts("step without layers, tied head and positions", count(dense).minus(layer(dense)));
}

// A step of 8 rows of 2048 tokens (gpt: of 1024) in bf16 with the defaults of a GPU, but the graph.
TrainConfig on_gpu(const std::string& family, const std::string& pattern) {
  TrainConfig config = tiny(family, pattern);
  config.device = Device::Cuda;
  config.precision = Precision::Bf16;
  config.preset = family == "gpt" ? "gpt2" : "base";
  config.vocab_size = 50304;
  config.seq_len = family == "gpt" ? 1024 : 2048;
  config.batch_rows = 8;
  config.step_graph = StepGraph::Off;
  return config;
}

std::int64_t launches_of(const TrainConfig& config, const std::set<std::string>& named) {
  std::vector<NamedConfig> variants{{config, named}};
  (void)take_fast_defaults(variants, nullptr, 90);
  const StepShape shape = step_shape(value_or_throw(resolve(variants.front().config)));
  EXPECT_TRUE(counts_all_launches(shape));
  return total_kernels(step_cost(shape));
}

// As counted on an NVIDIA H200: docs/results/README.md, "h200/launch-counts". Which sums cuBLAS
// splits follows the shapes, so a claim is no exact count.
TEST(KernelCounts, OfStepsOnAGpuAreNearThoseCounted) {
  const auto expect =
      [](const TrainConfig& config, std::set<std::string> named, std::int64_t counted) {
        named.merge(std::set<std::string>{"step_graph"});
        const auto claimed = static_cast<double>(launches_of(config, named));
        EXPECT_NEAR(claimed / static_cast<double>(counted), 1, .035)
            << config.family << " " << config.pattern << ": " << claimed << " for " << counted;
      };
  expect(on_gpu("deltanet_mla", "G"), {}, 135);
  expect(on_gpu("deltanet_mla", "GG"), {}, 177);
  expect(on_gpu("deltanet_mla", "GM"), {}, 191);
  expect(on_gpu("nsa", "N"), {}, 160);
  expect(on_gpu("nsa", "NN"), {}, 227);
  expect(on_gpu("nsa", "N"), {"nsa_inputs"}, 275); // operators
  expect(on_gpu("nsa", "NN"), {"nsa_inputs"}, 457);
  TrainConfig dense = on_gpu("nsa", "N");
  dense.nsa_attention = NsaAttention::Dense;
  expect(dense, {"nsa_inputs"}, 177);
  dense.gqa = Gqa::Shared;
  expect(dense, {"nsa_inputs"}, 175);
  expect(on_gpu("gpt", "A"), {}, 151);
  expect(on_gpu("gpt", "AA"), {}, 193);
}

} // namespace kernel_count_test
} // namespace assay
