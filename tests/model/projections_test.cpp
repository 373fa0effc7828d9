// Products of one input, each for itself or joined, and copies of q, k and v before attention.
#include <gtest/gtest.h>

#include "model/gates/code_path.h"
#include "tests/model/model_fixture.h"

namespace assay {
namespace projections_test {

using namespace testing_model;

CodePath path_of(const char* row, const TrainConfig& config) {
  return record_code_path(**optimizations().lookup(row), config, ragged_batches(config, 1));
}

double furthest(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    worst = std::max(
        worst,
        ((a[i] - b[i]).norm() / b[i].norm().clamp_min(1e-12)).to(at::kDouble).item<double>());
  return worst;
}

// In fp32 and in bf16, with weights cast for each use and kept.
TEST(Projections, SplitIsTheSameFunction) {
  for (TrainConfig joined : {small_config(), small_gpt()})
    for (const Precision precision : {Precision::Fp32, Precision::Bf16})
      for (const Weights16 weights : {Weights16::Cast, Weights16::Kept}) {
        if (precision == Precision::Fp32 && weights == Weights16::Kept) continue;
        joined.precision = precision;
        joined.weights16 = weights;
        TrainConfig split = joined;
        split.projections = Projections::Split;
        const Batch batch = ragged_batch(joined);
        Trainer a(joined), b(split);
        const double bound = precision == Precision::Fp32 ? 1e-5 : 3e-2;
        EXPECT_LE(
            furthest({b.logits(batch, joined.attention)}, {a.logits(batch, joined.attention)}),
            bound);
        EXPECT_LE(furthest(b.gradients(batch), a.gradients(batch)), bound);
      }
}

TEST(Projections, SplitTakesAProductEach) {
  for (const auto& [config, more] : {std::pair{small_gpt(), 2 * 2}, std::pair{small_config(), 1}}) {
    TrainConfig split = config;
    split.projections = Projections::Split;
    const CodePath joined = path_of("projections", config), each = path_of("projections", split);
    const auto products = [](const CodePath& path) {
      std::int64_t sum = 0;
      for (const char* name : {"aten::mm", "aten::addmm"})
        if (const auto found = path.operators.find(name); found != path.operators.end())
          sum += found->second;
      return sum;
    };
    EXPECT_EQ(products(each) - products(joined), 3 * more) << "forward, of x and of the weight";
    EXPECT_EQ(each.counters.count("projections/joined"), 0U);
    EXPECT_EQ(joined.counters.count("projections/split"), 0U);
  }
}

// q, k and v are slices of one product: the first request copies each, the second copies nothing.
TEST(QkvCopies, ASecondRequestCopiesNothing) {
  for (const QkvCopies form : {QkvCopies::Twice, QkvCopies::Once}) {
    TrainConfig config = small_gpt();
    config.qkv_copies = form;
    EXPECT_EQ(path_of("qkv_copies", config).counters.at("copies/contiguous"), 2 * 3);
  }
  EXPECT_EQ(path_of("qkv_copies", small_gpt()).counters.count("copies/contiguous"), 0U);
}

// Two layers of the delta rule with two matrices each, and nothing else.
TEST(Fp8Layers, DeltaLeavesTheOthersIn16Bits) {
  TrainConfig config = small_config();
  config.precision = Precision::Fp8;
  config.fp8_layers = Fp8Layers::Delta;
  const CodePath seen = path_of("grad_scaler", config);
  EXPECT_EQ(seen.counters.at("fp8/linear"), 2 * 2);
  EXPECT_EQ(seen.counters.at("fp8/weight_cast"), 2 * 2);
  EXPECT_EQ(seen.counters.at("fp8/left_out"), 4 + 3 * 2);
  EXPECT_EQ(seen.counters.count("fp8/off"), 0U) << "that is the other level of row fp8";
  config.fp8_scaling = Fp8Scaling::Delayed;
  Trainer trainer(config);
  const std::vector<Batch> batches = ragged_batches(config, 2);
  const double before = trainer.step({batches[0]}).loss();
  for (int i = 0; i < 20; ++i) (void)trainer.step({batches[static_cast<std::size_t>(i % 2)]});
  EXPECT_LT(trainer.step({batches[0]}).loss(), before - 0.3);
}

} // namespace projections_test
} // namespace assay
