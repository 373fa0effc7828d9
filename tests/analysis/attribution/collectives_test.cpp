// Which collectives ran, by the names of their kernels.
#include <gmock/gmock.h>

#include "experiments/analysis/rank_times.h"
#include "experiments/analysis/report.h"

namespace assay {
namespace collectives_test {

using testing::HasSubstr;

TEST(Collectives, AreNamedByTheKernelsThatRan) {
  Comparison comparison;
  comparison.a = "ring", comparison.b = "tree";
  EXPECT_EQ(collectives_text(comparison), "");
  comparison.explanation.emplace();
  const auto add = [&](const char* name, Stage stage, double a, double b) {
    DiffRow row;
    row.name = name, row.short_name = name, row.kernel_class = "nccl", row.stage = stage;
    row.calls_a = a, row.calls_b = b;
    comparison.explanation->kernels.push_back(row);
  };
  add("ncclDevKernel_AllReduce_Sum_f32_RING_LL", Stage::Backward, 13, 0);
  add("ncclDevKernel_AllReduce_Sum_f32_RING_LL", Stage::Optimizer, 1, 0);
  add("ncclDevKernel_AllReduce_Sum_f32_TREE_LL", Stage::Backward, 0, 14);
  EXPECT_EQ(collectives_text(comparison),
            "collectives a step, by their kernels: ring 14 x AllReduce_Sum_f32_RING_LL; tree 14 x "
            "AllReduce_Sum_f32_TREE_LL");
  comparison.explanation->kernels.pop_back();
  EXPECT_THAT(collectives_text(comparison), HasSubstr("; tree none"));
}

} // namespace collectives_test
} // namespace assay
