#include "model/memory/peak_memory.h"

#include <c10/core/Allocator.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>

#include "model/memory/allocation_log.h"

namespace assay {

namespace {

constexpr auto kAggregate = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);

c10::CachingDeviceAllocator::DeviceStats gpu_stats() {
  return c10::cuda::CUDACachingAllocator::getDeviceStats(c10::cuda::current_device());
}

// Whether the current stream records a CUDA graph.
bool is_captured() {
  return c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None;
}

} // namespace

std::int64_t current_bytes(Device device) {
  if (device == Device::Cuda) return gpu_stats().allocated_bytes[kAggregate].current;
  const struct mallinfo2 heap = mallinfo2();
  return static_cast<std::int64_t>(heap.uordblks + heap.hblkhd);
}

class PeakMemory::Reporter : public c10::MemoryReportingInfoBase {
public:
  Reporter(Device device, AllocationLog* log) : device_(device), log_(log) {}

  void reportMemoryUsage(
      void* address, std::int64_t size, std::size_t, std::size_t, c10::Device device) override {
    if (device.is_cpu() != (device_ == Device::Cpu)) return;
    if (log_ != nullptr) log_->allocated(address, size, device_ == Device::Cuda && is_captured());
    const std::int64_t now = current_.fetch_add(size) + size;
    std::int64_t peak = peak_.load();
    while (now > peak && !peak_.compare_exchange_weak(peak, now)) {
    }
  }
  bool memoryProfilingEnabled() const override { return true; }
  void restart() { peak_ = current_.load(); }
  std::int64_t peak() const { return peak_; }

private:
  Device device_;
  AllocationLog* log_;
  std::atomic<std::int64_t> current_{0}, peak_{0};
};

struct PeakMemory::Guard {
  explicit Guard(const std::shared_ptr<Reporter>& reporter)
      : info(c10::DebugInfoKind::PROFILER_STATE, reporter) {}
  c10::DebugInfoGuard info;
};

PeakMemory::PeakMemory(Device device, AllocationLog* log) : device_(device) {
  if (device_ == Device::Cuda) c10::cuda::CUDACachingAllocator::emptyCache();
  if (device_ == Device::Cpu || log != nullptr) {
    reporter_ = std::make_shared<Reporter>(device, log);
    guard_ = std::make_unique<Guard>(reporter_);
  }
  restart();
  if (log != nullptr) log->begin_at(start_bytes_);
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
