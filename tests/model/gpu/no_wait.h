// A step that makes no host synchronization.
#pragma once

#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "kernels/cuda_check.h"
#include "kernels/spin.h"
#include "model/training/trainer.h"

namespace assay::testing_model {

// The host returns from a step while the device still works on a planted wait of a second. `config`
// must make few launches: the queue of the device is finite.
inline void expect_no_wait(const TrainConfig& config, const std::vector<Batch>& batches) {
  Trainer trainer(config);
  for (int i = 0; i < 3; ++i) (void)trainer.step(batches);
  c10::cuda::device_synchronize();
  launch_spin(1'000'000'000, c10::cuda::getCurrentCUDAStream().stream());
  ASSAY_CUDA(cudaGetLastError());
  const auto start = std::chrono::steady_clock::now();
  const StepResult result = trainer.step(batches);
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 0.5);
  EXPECT_TRUE(result.finite());
}

} // namespace assay::testing_model
