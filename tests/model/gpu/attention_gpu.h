// What the tests of attention on a GPU share.
#pragma once

#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <gtest/gtest.h>

#include <functional>

#include "model/gates/gates.h"
#include "model/training/trainer.h"
#include "tests/model/attention/attention_fixture.h"
#include "tests/model/model_fixture.h"

namespace assay::testing_model {

using Cu = std::vector<std::int32_t>;
using Tensors = std::vector<at::Tensor>;

class AttentionGpu : public testing::Test {
protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  }
  // cuDNN refuses packed documents on older boards.
  static bool board_has_cudnn() { return at::cuda::getCurrentDeviceProperties()->major >= 9; }
};

inline Segments segments(const Cu& cu) {
  return segments_of(cu, torch_device(Device::Cuda));
}

inline void
expect_near(const Tensors& actual, const Tensors& reference, double bound, const char* what) {
  const char* const names[] = {"out", "dq", "dk", "dv"};
  for (std::size_t i = 0; i < reference.size(); ++i)
    EXPECT_LE(relative_rms(actual[i], reference[i]), bound) << names[i] << ", " << what;
}

// `run` over four rows of `row_length` tokens is captured once and replayed over other documents,
// whose borders change where they are; its results are compared with those of `expected`.
inline void
expect_a_graph_takes_other_documents(std::int32_t row_length,
                                     double bound,
                                     const std::function<Tensors(const Segments&)>& run,
                                     const std::function<Tensors(const Cu&)>& expected) {
  constexpr std::int64_t kRoom = 64;
  Segments fixed = segments(cut(4, row_length, 4, 1));
  fixed.cu = at::full({kRoom + 1}, 4 * row_length, fixed.cu.options());
  const auto set = [&](const Cu& cu) {
    fixed.cu.fill_(cu.back());
    fixed.cu.narrow(0, 0, static_cast<std::int64_t>(cu.size())).copy_(segments(cu).cu);
  };
  set(cut(4, row_length, 4, 1));
  const c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool();
  c10::cuda::device_synchronize();
  at::cuda::CUDAGraph graph;
  Tensors captured;
  {
    const c10::cuda::CUDAStreamGuard guard(stream);
    for (int i = 0; i < 2; ++i) (void)run(fixed);
    c10::cuda::device_synchronize();
    graph.capture_begin();
    captured = run(fixed);
    graph.capture_end();
  }
  for (const std::int32_t documents : {64, 5, 33, 4}) {
    const Cu cu = cut(4, row_length, documents, static_cast<unsigned>(documents));
    set(cu);
    c10::cuda::device_synchronize();
    {
      const c10::cuda::CUDAStreamGuard guard(stream);
      graph.replay();
    }
    c10::cuda::device_synchronize();
    expect_near(captured, expected(cu), bound, "replayed");
  }
}

} // namespace assay::testing_model
