// Packages compiled ahead of time: what a package is told of documents, and what is refused.
// Packages that compute are made and compared by tests/interop/run.sh, which has Python.
#include <gtest/gtest.h>

#include "model/training/compiled_model.h"
#include "model/training/trainer.h"
#include "tests/model/data/data_fixture.h"
#include "tests/model/model_fixture.h"
#include "tests/scratch.h"

namespace assay {
namespace compiled_model_test {

using namespace testing_model;

// Rows of 4; the second document goes on in the second row, where it begins anew.
TEST(CompiledModel, DocumentsBeginAtTheirPlaceInTheRow) {
  Batch batch;
  batch.tokens = at::zeros({2, 4}, at::kLong);
  batch.documents.cu_host = {0, 3, 4, 6, 8};
  EXPECT_TRUE(at::equal(document_starts(batch), at::tensor({0, 0, 0, 3, 0, 0, 2, 2}).view({2, 4})));
}

TEST(CompiledModel, RefusesWhatIsNoPackage) {
  const test::Scratch scratch;
  TrainConfig config = small_config();
  config.eval_forward = EvalForward::Compiled;
  config.package = scratch / "none.pt2";
  expect_mentions(bad_input_message([&] { (void)Trainer(config); }),
                  {"none.pt2: no such file (the package)", "compile.py"});
  config.package = scratch.write("text.pt2", "no zip\n");
  expect_mentions(bad_input_message([&] { (void)Trainer(config); }),
                  {"text.pt2: LibTorch cannot load it as a compiled package"});
}

// Nothing but a package for fp32 on a CPU evaluates this way.
TEST(CompiledModel, NeedsAPackageAndFp32) {
  TrainConfig config;
  config.eval_forward = EvalForward::Compiled;
  EXPECT_FALSE(resolve(config));
  config.package = "some.pt2";
  EXPECT_TRUE(resolve(config));
  config.precision = Precision::Bf16;
  EXPECT_FALSE(resolve(config));
}

} // namespace compiled_model_test
} // namespace assay
