#include "tests/bench/device_time.h"

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <chrono>
#include <vector>

#include "core/statistics/statistics.h"
#include "kernels/spin.h"

namespace assay {

double device_ms(int repeats, const std::function<void()>& work, std::int64_t ahead) {
  const at::Tensor l2 = at::empty({2 * at::cuda::getCurrentDeviceProperties()->l2CacheSize},
                                  at::TensorOptions().device(at::kCUDA).dtype(at::kByte));
  std::vector<double> times;
  for (int i = -2; i < repeats; ++i) {
    l2.zero_();
    if (ahead > 0) {
      launch_spin(ahead, c10::cuda::getCurrentCUDAStream());
      C10_CUDA_KERNEL_LAUNCH_CHECK();
    }
    at::cuda::CUDAEvent begin(cudaEventDefault), end(cudaEventDefault);
    begin.record(c10::cuda::getCurrentCUDAStream());
    work();
    end.record(c10::cuda::getCurrentCUDAStream());
    end.synchronize();
    if (i >= 0) times.push_back(begin.elapsed_time(end));
  }
  return median(times);
}

double user_ms(int repeats, const std::function<void()>& work) {
  constexpr int kCalls = 10;
  std::vector<double> times;
  for (int i = -1; i < repeats; ++i) { // the first is a warm-up
    c10::cuda::device_synchronize();
    const auto begin = std::chrono::steady_clock::now();
    for (int call = 0; call < kCalls; ++call) work();
    c10::cuda::device_synchronize();
    const std::chrono::duration<double, std::milli> spent =
        std::chrono::steady_clock::now() - begin;
    if (i >= 0) times.push_back(spent.count() / kCalls);
  }
  return median(times);
}

} // namespace assay
