// Bytes that LibTorch's own allocators hand out: not the resident size, which includes caches and
// code.
#pragma once

#include <cstdint>
#include <memory>

#include "model/config/train_config.h"

namespace assay {

// Bytes in use now. CUDA: LibTorch's caching allocator. CPU: the C library's heap, in which
// LibTorch's CPU tensors share memory with everything else; only differences count.
std::int64_t current_bytes(Device device);

class AllocationLog;

// Watches one device. CPU: LibTorch reports only allocations made by this thread while an object of
// this class lives, so make it before the trainer whose memory is asked for; objects do not nest.
// CUDA: LibTorch counts whole blocks, and up to 1 MiB of a block that is used again stays unsplit,
// so blocks that nobody uses are given back first: the figure does not hang on what ran before.
class PeakMemory {
public:
  // `log`, or null, is told of every allocation and must live longer.
  explicit PeakMemory(Device device, AllocationLog* log = nullptr);
  ~PeakMemory();
  PeakMemory(const PeakMemory&) = delete;
  PeakMemory& operator=(const PeakMemory&) = delete;

  void restart(); // the peak begins anew at the bytes in use now
  std::int64_t start_bytes() const {
    return start_bytes_;
  }                                // in use at the last restart (or construction)
  std::int64_t peak_bytes() const; // highest since then, start_bytes included

private:
  class Reporter;
  Device device_;
  std::int64_t start_bytes_ = 0;
  std::shared_ptr<Reporter> reporter_;
  struct Guard;
  std::unique_ptr<Guard> guard_;
};

} // namespace assay
