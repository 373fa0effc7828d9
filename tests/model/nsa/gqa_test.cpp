// Heads that share the keys and values of their group, against a copy for each head.
#include <gtest/gtest.h>

#include "model/gates/code_path.h"
#include "model/gates/gates.h"
#include "tests/model/model_fixture.h"

namespace assay {
namespace gqa_test {

using namespace testing_model;

TrainConfig dense(Gqa gqa, Attention path, Precision precision) {
  TrainConfig config = small_nsa(NsaAttention::Dense);
  config.gqa = gqa;
  config.attention = path;
  config.precision = precision;
  return value_or_throw(resolve(config));
}

TEST(Gqa, SharedIsTheSameFunction) {
  for (const Attention path : {Attention::Packed, Attention::Varlen})
    for (const Precision precision : {Precision::Fp32, Precision::Bf16}) {
      const TrainConfig repeat = dense(Gqa::Repeat, path, precision);
      ASSERT_LT(repeat.kv_groups, repeat.heads);
      const Batch batch = ragged_batch(repeat);
      Trainer a(repeat), b(dense(Gqa::Shared, path, precision));
      const double bound = precision == Precision::Fp32 ? 1e-6 : 1e-2;
      EXPECT_LE(relative_rms(b.logits(batch, path), a.logits(batch, path)), bound);
      const std::vector<at::Tensor> of_a = a.gradients(batch), of_b = b.gradients(batch);
      for (std::size_t i = 0; i < of_a.size(); ++i)
        EXPECT_LE(relative_rms(of_b[i], of_a[i]), bound) << a.parameters()[i].name;
    }
}

// Of each of two layers, keys and values.
TEST(Gqa, OnlyRepeatCopies) {
  const auto copies = [](Gqa gqa) {
    const TrainConfig config = dense(gqa, Attention::Varlen, Precision::Fp32);
    const CodePath seen =
        record_code_path(*optimizations().find("gqa"), config, ragged_batches(config, 1));
    const auto found = seen.operators.find("aten::repeat_interleave");
    return found == seen.operators.end() ? 0 : found->second;
  };
  EXPECT_EQ(copies(Gqa::Repeat), 2 * 2);
  EXPECT_EQ(copies(Gqa::Shared), 0);
}

} // namespace gqa_test
} // namespace assay
