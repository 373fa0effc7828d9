#include "core/statistics/roofline.h"

#include <algorithm>
#include <cassert>

namespace assay {

namespace {

constexpr double kFarFromPeaks =
    2; // a device busy for this many times the floor is not bound by it

double peak_of(const MeasuredPeaks& peaks, Peak peak) {
  const double flops = peak == Peak::Fp32  ? peaks.fp32_flops_per_second
                       : peak == Peak::Fp8 ? peaks.fp8_flops_per_second
                                           : peaks.flops_per_second;
  assert(flops > 0 && "the peak of every type that an operation runs in is measured");
  return flops;
}

} // namespace

double total_flops(const std::vector<OpCost>& ops) {
  double sum = 0;
  for (const OpCost& op : ops) sum += op.flops;
  return sum;
}

std::int64_t total_kernels(const std::vector<OpCost>& ops) {
  std::int64_t sum = 0;
  for (const OpCost& op : ops) sum += op.kernels;
  return sum;
}

Roofline roofline(const std::vector<OpCost>& ops,
                  const MeasuredPeaks& peaks,
                  std::optional<std::int64_t> kernels) {
  assert(peaks.bytes_per_second > 0 && peaks.launch_seconds > 0);
  Roofline result;
  for (const OpCost& op : ops) {
    const double compute = op.flops / peak_of(peaks, op.peak),
                 bytes = op.bytes / peaks.bytes_per_second;
    (compute > bytes ? result.compute_seconds : result.bytes_seconds) += std::max(compute, bytes);
  }
  result.seconds = result.compute_seconds + result.bytes_seconds;
  result.launch_seconds =
      static_cast<double>(kernels.value_or(total_kernels(ops))) * peaks.launch_seconds;
  return result;
}

std::string_view to_string(Peak peak) {
  constexpr std::string_view kNames[] = {"compute", "fp32", "fp8"};
  return kNames[static_cast<int>(peak)];
}

std::string_view to_string(Bottleneck value) {
  constexpr std::string_view kNames[] = {"compute", "bytes", "kernels", "launches", "host"};
  return kNames[static_cast<int>(value)];
}

std::optional<Bottleneck> bottleneck_of(const Roofline& roofline,
                                        const std::optional<MeasuredStep>& step) {
  if (step && step->busy_seconds && *step->busy_seconds < step->seconds / 2)
    return roofline.launch_seconds >= step->seconds / 2 ? Bottleneck::LaunchOverhead
                                                        : Bottleneck::Host;
  if (step && step->busy_seconds && *step->busy_seconds > kFarFromPeaks * roofline.seconds)
    return Bottleneck::Kernels;
  const double floor = std::max(roofline.seconds, roofline.launch_seconds);
  if (step && !step->busy_seconds && step->seconds > kFarFromPeaks * floor) return std::nullopt;
  if (roofline.launch_seconds > roofline.seconds) return Bottleneck::LaunchOverhead;
  return roofline.compute_seconds >= roofline.bytes_seconds ? Bottleneck::Compute
                                                            : Bottleneck::Bytes;
}

double model_flops_utilization(double flops, double seconds, double peak_flops_per_second) {
  return flops / (seconds * peak_flops_per_second);
}

} // namespace assay
