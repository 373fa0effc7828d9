// Roofline of a training step (Williams, Waterman, Patterson 2009, CACM 52(4), 65): how fast its
// operations could run at the peaks that were measured on this device, and its bottleneck.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

// What computes an operation.
enum class Peak { Compute, Fp32, Fp8 }; // Compute: the type of autocast
std::string_view to_string(Peak peak);  // "compute", "fp32", "fp8"

// One kind of operation of a step, all its occurrences together, forward and backward.
struct OpCost {
  std::string name;
  double flops = 0;         // of matrix products and attention; elementwise work counts as bytes
  double bytes = 0;         // between memory and chip when every tensor moves once
  std::int64_t kernels = 0; // that this trainer launches for it
  Peak peak = Peak::Compute;
};

double total_flops(const std::vector<OpCost>& ops);
std::int64_t total_kernels(const std::vector<OpCost>& ops);

// Measured on the device, never from a data sheet. Above 0; FP8 only where an operation runs in it.
struct MeasuredPeaks {
  double flops_per_second = 0;      // matrix product in the compute type
  double fp32_flops_per_second = 0; // in fp32
  double fp8_flops_per_second = 0;
  double bytes_per_second = 0; // copy, reads and writes both counted
  double launch_seconds = 0;   // between the starts of two empty kernels of one stream
};

// Paths of the metrics that a parity launch stores of the device, for the launch as a whole
// (docs/ledger.md, "Peaks"). One figure each, in FLOPs, bytes or seconds.
inline constexpr const char* kComputePeakMetric = "peak/compute_flops_per_second";
inline constexpr const char* kFp32PeakMetric = "peak/fp32_flops_per_second";
inline constexpr const char* kFp8PeakMetric = "peak/fp8_flops_per_second";
inline constexpr const char* kBandwidthMetric = "peak/bytes_per_second";
inline constexpr const char* kLaunchMetric = "peak/launch_seconds";

struct Roofline {
  double seconds = 0;         // sum over operations of max(FLOPs / peak, bytes / bandwidth)
  double compute_seconds = 0; // the part of `seconds` in operations that FLOPs bind …
  double bytes_seconds = 0;   // … and that bytes bind
  double launch_seconds = 0;  // kernels x time of launching one: the floor of the host's side

  // The device works while the host launches: the step takes at least the larger.
  double floor() const { return seconds > launch_seconds ? seconds : launch_seconds; }
};
// `kernels`: counted in a trace; nothing: the operations' own sum.
Roofline roofline(const std::vector<OpCost>& ops,
                  const MeasuredPeaks& peaks,
                  std::optional<std::int64_t> kernels = std::nullopt);

enum class Bottleneck { Compute, Bytes, Kernels, LaunchOverhead, Host };
std::string_view to_string(Bottleneck value); // "compute", "bytes", "kernels", "launches", "host"

struct MeasuredStep {
  double seconds = 0;                 // wall time
  std::optional<double> busy_seconds; // of these the device worked; needs a trace
};

// Where the device idles for more than half of the step: Launches if launching takes at least half
// of the step, else Host (synchronizations, data, the program itself). Where it works for more than
// twice the operations' time at the peaks: Kernels, which are far from the peaks. Else, or where
// idleness is not known: Launches if their floor is above the operations' time, else whichever of
// compute and bytes binds the longer part of it. Not known where an untraced step takes more than
// twice those floors: slow kernels, gaps or the host.
std::optional<Bottleneck> bottleneck_of(const Roofline& roofline,
                                        const std::optional<MeasuredStep>& step = std::nullopt);

// Model FLOPs utilization: FLOPs of the model's own arithmetic, nothing recomputed, over what the
// device could have done in that time.
double model_flops_utilization(double flops, double seconds, double peak_flops_per_second);

} // namespace assay
