// A small GPT, and the one of gpt2_vectors.json with its weights in fp64.
#pragma once

#include <gtest/gtest.h>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/config/optimization.h"
#include "model/families/family.h"
#include "model/layout/segments.h"
#include "tests/model/model_fixture.h"
#include "tests/model/row_levels.h"
#include "tests/paths.h"

namespace assay::testing_model {

inline std::vector<RowLevel> gpt_row_levels() {
  return row_levels("gpt");
}

inline TrainConfig gpt_for(const Optimization& row) {
  TrainConfig config = config_for(row, "gpt", small_gpt());
  if (row.name == "mla_attention") config.head_dim = 64; // a width of cuDNN's own tests
  return config;
}

// Of make_gpt2_vectors.py.
inline TrainConfig vectors_config() {
  TrainConfig config;
  config.family = "gpt";
  config.pattern = "AA";
  config.d_model = 8;
  config.heads = 2;
  config.head_dim = 4;
  config.ffn_dim = 16;
  config.vocab_size = 11;
  config.seq_len = 6;
  config.positions = 6;
  config.batch_rows = 2;
  return config;
}

inline const nlohmann::json& gpt2_vectors() {
  static const nlohmann::json vectors = nlohmann::json::parse(
      std::ifstream(test::source_dir() + "/tests/model/gpt/gpt2_vectors.json"));
  return vectors;
}

// The vectors' model; parameter i of the script has the values
// 0.5 sin(0.7 place + 1.3 i + 0.1), and 1 more in the weights of norms.
inline BuiltModel vectors_model(const TrainConfig& config) {
  BuiltModel built = (*value_or_throw(model_families().lookup("gpt")))
                         .build(config, at::make_generator<at::CPUGeneratorImpl>(1));
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < built.parameters.size(); ++i) {
    const Parameter& p = built.parameters[i];
    const at::Tensor place = at::arange(p.tensor.numel(), at::kDouble);
    at::Tensor values = (place * 0.7 + (1.3 * static_cast<double>(i) + 0.1)).sin() * 0.5;
    if (p.name.ends_with("norm")) values = values + 1;
    p.tensor.set_data(values.view(p.tensor.sizes()));
  }
  return built;
}

inline Batch vectors_batch(const TrainConfig& config) {
  const at::Tensor place = at::arange(12, at::kLong).view({2, 6});
  const std::vector<std::int32_t> ends = gpt2_vectors().at("documents");
  Batch batch = make_batch((place * 7 + 3).remainder(11),
                           (place * place * 5 + 1).remainder(11),
                           {ends.begin() + 1, ends.end()});
  prepare(batch, config);
  return batch;
}

} // namespace assay::testing_model
