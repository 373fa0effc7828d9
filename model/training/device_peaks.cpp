#include "model/training/device_peaks.h"

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>

#include "kernels/cuda_check.h"
#include "kernels/empty.h"
#include "model/layers/fp8/fp8_linear.h"
#include "model/training/trainer.h"

namespace assay {

namespace {

constexpr int kRepeats = 5;
constexpr int kProducts = 10, kCopies = 10, kLaunches = 2000; // a repeat
constexpr std::int64_t kSide = 8192, kFp32Side = 4096;        // of square matrices
constexpr std::int64_t kCopyBytes = std::int64_t{256} << 20;  // far beyond any cache

// Seconds of one `work()` on the device: the best repeat of `times` of them, after one to warm up.
template <class Work> double best_seconds(int times, Work work) {
  const auto stream = c10::cuda::getCurrentCUDAStream();
  double best = 0;
  for (int repeat = 0; repeat <= kRepeats; ++repeat) {
    at::cuda::CUDAEvent begin(cudaEventDefault), end(cudaEventDefault);
    begin.record(stream);
    for (int i = 0; i < times; ++i) work();
    end.record(stream);
    end.synchronize();
    const double seconds = static_cast<double>(begin.elapsed_time(end)) * 1e-3 / times;
    if (repeat == 1 || (repeat > 1 && seconds < best)) best = seconds;
  }
  return best;
}

// Values as a trained model's: a product of zeros draws less power and runs faster than any real
// one.
at::Tensor matrix(std::int64_t side, at::ScalarType type) {
  return at::arange(side * side, at::TensorOptions(at::kCUDA).dtype(at::kFloat))
      .sin_()
      .view({side, side})
      .to(type);
}

double flops_of(std::int64_t side, double seconds) {
  const auto n = static_cast<double>(side);
  return 2 * n * n * n / seconds;
}

double product_peak(at::ScalarType type) {
  const std::int64_t side = type == at::kFloat ? kFp32Side : kSide;
  const at::Tensor a = matrix(side, type), b = matrix(side, type);
  at::Tensor out = at::empty_like(a);
  return flops_of(side, best_seconds(kProducts, [&] { at::mm_out(out, a, b.t()); }));
}

double fp8_peak() {
  const at::Tensor source = matrix(kSide, at::kBFloat16);
  const Fp8Matrix a = to_fp8(source, at::kFloat8_e4m3fn, Fp8Orders::Rows);
  return flops_of(kSide, best_seconds(kProducts, [&] {
                    (void)at::_scaled_mm(a.by_rows,
                                         a.by_rows.t(),
                                         a.inverse_scale,
                                         a.inverse_scale,
                                         {},
                                         {},
                                         at::kBFloat16,
                                         true);
                  }));
}

double copy_peak() {
  const auto options = at::TensorOptions(at::kCUDA).dtype(at::kByte);
  const at::Tensor from = at::zeros({kCopyBytes}, options);
  at::Tensor to = at::empty_like(from);
  return 2.0 * static_cast<double>(kCopyBytes) / best_seconds(kCopies, [&] { to.copy_(from); });
}

double launch_seconds() {
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream().stream();
  const double seconds = best_seconds(kLaunches, [&] { launch_empty(stream); });
  ASSAY_CUDA(cudaGetLastError());
  return seconds;
}

} // namespace

MeasuredPeaks measure_peaks(Precision precision) {
  const at::NoGradGuard no_gradient;
  MeasuredPeaks peaks;
  peaks.fp32_flops_per_second = product_peak(at::kFloat);
  peaks.flops_per_second = precision == Precision::Fp32 ? peaks.fp32_flops_per_second
                                                        : product_peak(compute_type(precision));
  if (precision == Precision::Fp8) peaks.fp8_flops_per_second = fp8_peak();
  peaks.bytes_per_second = copy_peak();
  peaks.launch_seconds = launch_seconds();
  c10::cuda::CUDACachingAllocator::emptyCache();
  return peaks;
}

} // namespace assay
