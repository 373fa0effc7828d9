// How fast a variant trains, and how fast the device on which it ran could do the same arithmetic.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/statistics/roofline.h"

namespace assay {

struct VariantSpeed {
  std::string variant;                 // its name; "": the train step beside the cell's unit
  double step_seconds = 0;             // median wall time of a train step
  double tokens_per_second = 0;        // of all ranks together
  double padding_share = 0;            // of the positions of a step, 0..1: they are no tokens
  double flops = 0;                    // model FLOPs of a step, by arithmetic on the shape
  std::optional<std::int64_t> kernels; // device operations of a step
  bool kernels_traced = false;         // counted in a trace; false: by arithmetic
  std::optional<double> busy_seconds;  // of a step the device worked; from a trace
  std::optional<MeasuredPeaks> peaks;  // of the device that ran it
  std::optional<Roofline> roofline;    // needs peaks
  std::optional<Bottleneck> bound;     // needs peaks and kernels
  std::string unknown;                 // why roofline or bound is not known, or ""
};

inline constexpr const char* kUnknownText = "unknown"; // in place of a figure
// "1.32 M tokens"
std::string token_count_text(double tokens);
// "271 K tokens/s"
std::string token_rate_text(double tokens_per_second);
// Words for a table: "12.3 %", "4.51 ms", "kernels"; "unknown" where it is.
std::string utilization_text(const VariantSpeed& speed);
std::string roofline_text(const VariantSpeed& speed);
std::string bottleneck_text(const VariantSpeed& speed);
// "2688, 11.0 ms, traced": kernel launches, their floor, and where the count comes from.
std::string kernel_launches_text(const VariantSpeed& speed);

} // namespace assay
