// Metrics of a memory launch that say what the bytes at a variant's peak are, one a phase and
// module (model/memory/allocation_log.h).
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace assay {

// In the order of a step, with the words that people read.
struct MemoryPhase {
  std::string_view name, words;
};
inline constexpr MemoryPhase kMemoryPhases[] = {{"weights", "weights"},
                                                {"weights16", "16-bit copies of weights"},
                                                {"optimizer", "optimizer state"},
                                                {"ema", "EMA"},
                                                {"gradients", "gradients"},
                                                {"saved_for_backward", "saved for backward"},
                                                {"forward", "temporary, forward pass"},
                                                {"backward", "temporary, backward pass"},
                                                {"update", "temporary, update"},
                                                {"ema_swap", "EMA swap"},
                                                {"evaluation", "evaluation"},
                                                {"ranks", "buffers between ranks"},
                                                {"graph_rest", "rest of the CUDA graph's memory"},
                                                {"earlier", "in use before (libraries, batches)"},
                                                {"other", "other"}};

inline constexpr std::string_view kMemoryPartPrefix = "memory/at_peak/";
// Bytes over the step that has the peak: its value is the highest, its detail a JSON object
// {"ns": […], "bytes": […], "stages": [["forward", from, to], …]} of whole nanoseconds from the
// step's begin.
inline constexpr std::string_view kMemoryCurveMetric = "memory/curve";

// "memory/at_peak/saved_for_backward/layers.3.feed_forward"
inline std::string memory_part_metric(const std::string& phase, const std::string& module) {
  std::string path(kMemoryPartPrefix);
  return path.append(phase).append("/").append(module);
}

// Whether a list of phases, "weights,ema", has this one.
inline bool has_phase(std::string_view phases, std::string_view phase) {
  while (!phases.empty()) {
    const std::size_t end = std::min(phases.find(','), phases.size());
    if (phases.substr(0, end) == phase) return true;
    phases.remove_prefix(std::min(end + 1, phases.size()));
  }
  return false;
}

// Phase and module; none for another metric.
inline std::optional<std::pair<std::string, std::string>> memory_part_of(std::string_view path) {
  if (!path.starts_with(kMemoryPartPrefix)) return std::nullopt;
  path.remove_prefix(kMemoryPartPrefix.size());
  const std::size_t slash = path.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  return std::pair(std::string(path.substr(0, slash)), std::string(path.substr(slash + 1)));
}

} // namespace assay
