#include "model/training/peak_memory.h"

#include <c10/core/Allocator.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>

namespace assay {

namespace {

constexpr auto kAggregate = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);

c10::CachingDeviceAllocator::DeviceStats gpu_stats() {
  return c10::cuda::CUDACachingAllocator::getDeviceStats(c10::cuda::current_device());
}

} // namespace

std::int64_t current_bytes(Device device) {
  if (device == Device::Cuda) return gpu_stats().allocated_bytes[kAggregate].current;
  const struct mallinfo2 heap = mallinfo2();
  return static_cast<std::int64_t>(heap.uordblks + heap.hblkhd);
}

class PeakMemory::Reporter : public c10::MemoryReportingInfoBase {
public:
  void reportMemoryUsage(
      void*, std::int64_t size, std::size_t, std::size_t, c10::Device device) override {
    if (!device.is_cpu()) return;
    const std::int64_t now = current_.fetch_add(size) + size;
    std::int64_t peak = peak_.load();
    while (now > peak && !peak_.compare_exchange_weak(peak, now)) {
    }
  }
  bool memoryProfilingEnabled() const override { return true; }
  void restart() { peak_ = current_.load(); }
  std::int64_t peak() const { return peak_; }

private:
  std::atomic<std::int64_t> current_{0}, peak_{0};
};

struct PeakMemory::Guard {
  explicit Guard(const std::shared_ptr<Reporter>& reporter)
      : info(c10::DebugInfoKind::PROFILER_STATE, reporter) {}
  c10::DebugInfoGuard info;
};

PeakMemory::PeakMemory(Device device) : device_(device) {
  if (device_ == Device::Cpu) {
    reporter_ = std::make_shared<Reporter>();
    guard_ = std::make_unique<Guard>(reporter_);
  } else {
    c10::cuda::CUDACachingAllocator::emptyCache();
  }
  restart();
}

PeakMemory::~PeakMemory() = default;

void PeakMemory::restart() {
  if (device_ == Device::Cuda) {
    c10::cuda::CUDACachingAllocator::resetPeakStats(c10::cuda::current_device());
    start_bytes_ = gpu_stats().allocated_bytes[kAggregate].current;
  } else {
    reporter_->restart();
    start_bytes_ = reporter_->peak();
  }
}

std::int64_t PeakMemory::peak_bytes() const {
  return device_ == Device::Cuda ? gpu_stats().allocated_bytes[kAggregate].peak : reporter_->peak();
}

} // namespace assay
