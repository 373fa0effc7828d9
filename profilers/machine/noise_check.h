// NoiseCheck: how evenly this machine computes right now, from a fixed loop in short slices. For
// `assay doctor`: a machine whose slices differ by 5 % needs more launches to show a 1 % effect.
#pragma once

#include <optional>
#include <vector>

namespace assay {

struct NoiseCheck {
  int slices = 0;
  double median_ms = 0; // of a slice
  double spread =
      0; // robust standard deviation (1.4826 × MAD) of a slice, as a share of the median
  double slowest = 0;                // slowest slice ÷ median
  std::optional<double> worst_steal; // largest steal share of a tenth of a second; absent if the
                                     // kernel does not report it
  std::optional<double> run_delay;   // share of the whole check that the loop waited for a core
};

// Runs on one core for about `seconds`.
NoiseCheck check_noise(double seconds = 1.5);

// The figures of given slice times (ms); at least one.
NoiseCheck summarize_slices(const std::vector<double>& slice_ms);

} // namespace assay
