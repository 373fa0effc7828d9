// Copies of a step: planted ones are found by caller, shape and types, and nothing else changes.
#include <gtest/gtest.h>

#include "model/training/copy_census.h"
#include "tests/model/model_fixture.h"

namespace assay {
namespace copy_census_test {

using namespace testing_model;

std::int64_t total(const std::vector<StepCopy>& rows) {
  std::int64_t bytes = 0;
  for (const StepCopy& row : rows) bytes += row.bytes;
  return bytes;
}

std::vector<StepCopy> copies_of(const TrainConfig& config, const Batch& batch) {
  Trainer trainer(config);
  return copies_of_step(trainer, {batch});
}

// q, k and v made contiguous: three copies a layer of [T, H, d] in fp32, each read and written.
TEST(CopyCensus, PlantedCopiesAreNamedWithTheirCaller) {
  TrainConfig config = small_gpt();
  const Batch batch = ragged_batch(config);
  const std::vector<StepCopy> without = copies_of(config, batch);
  config.qkv_copies = QkvCopies::Once;
  const std::vector<StepCopy> with = copies_of(config, batch);
  const std::int64_t tokens = batch.tokens.numel(),
                     layers = static_cast<std::int64_t>(config.pattern.size()),
                     bytes = 3 * layers * tokens * config.heads * config.head_dim * (4 + 4);
  EXPECT_EQ(total(with) - total(without), bytes);
  std::int64_t named = 0;
  for (const StepCopy& row : with)
    if (row.caller == "aten::contiguous" && row.from == "float" && row.to == "float" &&
        row.shape == fmt::format("{}x{}x{}", tokens, config.heads, config.head_dim))
      named += row.stage == "causal_attention" ? row.bytes : 0;
  EXPECT_EQ(named, bytes);
}

// Autocast casts the weight of a linear once for every product.
TEST(CopyCensus, CastsOfWeightsAreNamedWithTheirTypes) {
  TrainConfig config = small_gpt();
  config.precision = Precision::Bf16;
  std::int64_t calls = 0;
  for (const StepCopy& row : copies_of(config, ragged_batch(config)))
    if (row.shape == fmt::format("{}x{}", config.ffn_dim, config.d_model) && row.from == "float" &&
        row.to == "bfloat16") {
      calls += row.calls;
      EXPECT_EQ(row.asked_by, "aten::_to_copy");
      EXPECT_EQ(row.bytes, row.calls * config.ffn_dim * config.d_model * (4 + 2));
    }
  EXPECT_GE(calls, static_cast<std::int64_t>(config.pattern.size()));
}

} // namespace copy_census_test
} // namespace assay
