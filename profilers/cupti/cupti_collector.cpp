// CUPTI's Activity API: which records, which calls, and what becomes of the buffers. CUPTI fills
// buffers on the threads that make calls and hands full ones over on a thread of its own.
#include "profilers/cupti/cupti_collector.h"

#include <stdlib.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <mutex>
#include <utility>

#include "core/trace/trace_file.h"
#include "profilers/cupti/cupti_api.h"
#include "profilers/cupti/cupti_decode.h"
#include "profilers/trace/device_collector.h"
#include "profilers/trace/trace_session.h"

namespace assay {

namespace {

constexpr std::size_t kBufferBytes = 4u << 20;
constexpr std::size_t kDeviceBufferBytes = 6'400'000; // about 200,000 kernel records each
constexpr std::size_t kDeviceBuffersAtStart = 4;      // made before the first step, not in it

std::vector<CUpti_ActivityKind> kinds_of(const CollectSet& collect) {
  std::vector<CUpti_ActivityKind> kinds;
  if (collect.kernels) kinds.push_back(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  if (collect.copies)
    kinds.insert(
        kinds.end(),
        {CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMSET});
  if (collect.synchronization) kinds.push_back(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
  if (collect.overhead) kinds.push_back(CUPTI_ACTIVITY_KIND_OVERHEAD);
  if (collect.api) kinds.push_back(CUPTI_ACTIVITY_KIND_RUNTIME);
  if (collect.driver) kinds.push_back(CUPTI_ACTIVITY_KIND_DRIVER);
  return kinds;
}

// The calls that start or wait for work. Everything else (device queries, error reads, event
// records by the thousand) costs more than it shows, and is not recorded.
constexpr std::array kRuntimeCalls{"cudaLaunchKernel",
                                   "cudaLaunchKernelExC",
                                   "cudaLaunchCooperativeKernel",
                                   "cudaLaunchHostFunc",
                                   "cudaMemcpy",
                                   "cudaMemcpyAsync",
                                   "cudaMemcpy2DAsync",
                                   "cudaMemcpyPeerAsync",
                                   "cudaMemset",
                                   "cudaMemsetAsync",
                                   "cudaMemset2DAsync",
                                   "cudaDeviceSynchronize",
                                   "cudaStreamSynchronize",
                                   "cudaStreamWaitEvent",
                                   "cudaEventSynchronize",
                                   "cudaMalloc",
                                   "cudaMallocAsync",
                                   "cudaFree",
                                   "cudaFreeAsync",
                                   "cudaHostAlloc",
                                   "cudaFreeHost",
                                   "cudaGraphLaunch",
                                   "cudaGraphInstantiate"};
// Kernels that do not come through the runtime: Triton, cuBLASLt, cuDNN.
constexpr std::array kDriverCalls{"cuLaunchKernel", "cuLaunchKernelEx", "cuGraphLaunch"};

class CuptiCollector;
// CUPTI's callbacks are plain functions and are registered once a process.
std::atomic<CuptiCollector*> active_collector{nullptr};

class CuptiCollector : public DeviceCollector {
public:
  CuptiCollector(CuptiApi api, const CollectSet& collect, std::size_t memory_limit_bytes)
      : api_(std::move(api)), decoder_(api_), kinds_(kinds_of(collect)), collect_(collect),
        limit_bytes_(memory_limit_bytes) {}

  ~CuptiCollector() override {
    if (active_collector.load() != this) return; // was refused: CUPTI belongs to another
    disable();
    api_.flush_all(0);
    api_.finalize(); // else its hooks stay and slow every later call
    active_collector = nullptr;
    for (const Buffer& buffer : completed_) ::free(buffer.data);
    for (std::uint8_t* data : pool_) ::free(data);
  }

  Result<bool> start();

  void enable() override {
    for (const CUpti_ActivityKind kind : kinds_)
      note(api_.enable(kind), fmt::format("enabling activity kind {}", static_cast<int>(kind)));
    if (markers_) note(api_.enable(CUPTI_ACTIVITY_KIND_MARKER), "enabling NVTX markers");
    leave_out_calls();
  }

  void disable() override {
    for (const CUpti_ActivityKind kind : kinds_)
      note(api_.disable(kind), fmt::format("disabling activity kind {}", static_cast<int>(kind)));
    if (markers_) note(api_.disable(CUPTI_ACTIVITY_KIND_MARKER), "disabling NVTX markers");
  }

  void flush() override {
    measure_clock();
    note(api_.flush_all(0), "taking back the buffers");
    std::size_t dropped = 0;
    if (api_.dropped_records(nullptr, 0, &dropped) == CUPTI_SUCCESS) // resets on read
      add(&DeviceCounters::dropped, static_cast<std::int64_t>(dropped));
  }

  void drain(TraceWriter& names, TraceBatch& into) override {
    std::vector<Buffer> buffers;
    {
      const std::lock_guard lock(mutex_);
      buffers.swap(completed_);
      waiting_bytes_ = 0;
    }
    for (const Buffer& buffer : buffers) {
      decode(buffer, names, into);
      const std::lock_guard lock(mutex_);
      pool_.push_back(buffer.data);
    }
  }

  void forget_names() override { decoder_.forget_names(); }

  DeviceCounters counters() const override {
    const std::lock_guard lock(mutex_);
    return counters_;
  }

  std::string version() const override {
    std::uint32_t number = 0;
    return api_.get_version(&number) == CUPTI_SUCCESS ? std::to_string(number) : "";
  }

  std::uint8_t* take_buffer() {
    std::uint8_t* data = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (!pool_.empty()) {
        data = pool_.back();
        pool_.pop_back();
      }
    }
    if (data == nullptr) data = static_cast<std::uint8_t*>(::aligned_alloc(8, kBufferBytes));
    return data;
  }

  void completed(std::uint8_t* data, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (bytes == 0) {
      pool_.push_back(data);
    } else if (waiting_bytes_ + bytes > limit_bytes_) {
      ++counters_.dropped_buffers;
      pool_.push_back(data);
    } else {
      waiting_bytes_ += bytes;
      completed_.push_back({data, bytes});
    }
  }

private:
  struct Buffer {
    std::uint8_t* data;
    std::size_t bytes;
  };

  void note(CUptiResult status, const std::string& what) {
    if (status == CUPTI_SUCCESS) return;
    const char* text = "unknown error";
    api_.result_string(status, &text);
    const std::string line =
        fmt::format("{}{}: {}", counters_.note.empty() ? "" : "; ", what, text);
    const std::lock_guard lock(mutex_);
    ++counters_.refused;
    if (counters_.note.find(line) == std::string::npos) counters_.note += line;
  }
  void add(std::int64_t DeviceCounters::*member, std::int64_t amount) {
    const std::lock_guard lock(mutex_);
    counters_.*member += amount;
  }
  void find_calls();
  void leave_out_calls();
  void measure_clock();
  void decode(const Buffer& buffer, TraceWriter& names, TraceBatch& into);

  CuptiApi api_;
  CuptiDecoder decoder_;
  std::vector<CUpti_ActivityKind> kinds_;
  CollectSet collect_;
  std::size_t limit_bytes_;
  bool markers_ = false;
  std::vector<CUpti_CallbackId> other_runtime_calls_, other_driver_calls_; // not recorded
  mutable std::mutex mutex_; // locked for moments only; CUPTI is never called under it
  std::vector<Buffer> completed_;
  std::vector<std::uint8_t*> pool_;
  std::size_t waiting_bytes_ = 0;
  DeviceCounters counters_;
};

void CUPTIAPI on_requested(std::uint8_t** buffer, std::size_t* size, std::size_t* records) {
  CuptiCollector* collector = active_collector.load();
  *buffer = collector == nullptr ? nullptr : collector->take_buffer();
  *size = *buffer == nullptr ? 0 : kBufferBytes;
  *records = 0;
}

void CUPTIAPI
on_completed(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  if (CuptiCollector* collector = active_collector.load())
    collector->completed(buffer, valid);
  else
    ::free(buffer);
}

Result<bool> CuptiCollector::start() {
  CuptiCollector* none = nullptr;
  if (!active_collector.compare_exchange_strong(none, this))
    return fail("GPU activity is already being recorded in this process");
  api_.set_thread_id_type(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
  const auto set = [&](CUpti_ActivityAttribute attribute, auto value) {
    std::size_t size = sizeof(value);
    (void)api_.set_attribute(attribute, &size, &value); // tuning: its default only stalls more
  };
  set(CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE, kDeviceBufferBytes);
  set(CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_PRE_ALLOCATE_VALUE, kDeviceBuffersAtStart);
  if (const CUptiResult status = api_.register_callbacks(on_requested, on_completed);
      status != CUPTI_SUCCESS) {
    const char* text = "unknown error";
    api_.result_string(status, &text);
    active_collector = nullptr;
    return fail(
        "GPU activity cannot be recorded: CUPTI reports '{}' (another profiler in this process, "
        "or no permission)",
        text);
  }
  const char* injection = ::getenv("NVTX_INJECTION64_PATH");
  if (injection == nullptr) ::setenv("NVTX_INJECTION64_PATH", api_.path.c_str(), 0);
  markers_ = injection == nullptr || api_.path == injection;
  find_calls();
  for (int i = 0; i < 8; ++i) {
    auto* data = static_cast<std::uint8_t*>(::aligned_alloc(8, kBufferBytes));
    std::memset(data, 0, kBufferBytes); // touched now, not in a step
    pool_.push_back(data);
  }
  return true;
}

// Callback ids are taken by name: their numbers differ between versions of the toolkit.
void CuptiCollector::find_calls() {
  const auto others = [&](CUpti_CallbackDomain domain, const auto& wanted, std::uint32_t last) {
    std::vector<CUpti_CallbackId> found;
    for (CUpti_CallbackId id = 1; id < last; ++id) {
      const char* text = nullptr;
      if (api_.callback_name(domain, id, &text) != CUPTI_SUCCESS || text == nullptr) continue;
      std::string_view name(text);
      for (const char* suffix : {"_v", "_ptsz"})
        if (const std::size_t at = name.rfind(suffix); at != std::string_view::npos)
          name = name.substr(0, at);
      if (std::find(wanted.begin(), wanted.end(), name) == wanted.end()) found.push_back(id);
    }
    return found;
  };
  other_runtime_calls_ =
      others(CUPTI_CB_DOMAIN_RUNTIME_API, kRuntimeCalls, CUPTI_RUNTIME_TRACE_CBID_SIZE);
  other_driver_calls_ =
      others(CUPTI_CB_DOMAIN_DRIVER_API, kDriverCalls, CUPTI_DRIVER_TRACE_CBID_SIZE);
}

// Enabling a kind enables all of its calls, so this comes after it.
void CuptiCollector::leave_out_calls() {
  if (collect_.api)
    for (const CUpti_CallbackId id : other_runtime_calls_) (void)api_.enable_runtime_api(id, 0);
  if (collect_.driver)
    for (const CUpti_CallbackId id : other_driver_calls_) (void)api_.enable_driver_api(id, 0);
}

// CUPTI's clock between two readings of ours: the smallest distance of a few tries bounds the
// offset; the largest of all flushes counts.
void CuptiCollector::measure_clock() {
  std::optional<double> best;
  for (int i = 0; i < 5; ++i) {
    std::uint64_t cupti = 0;
    const std::int64_t before = trace_now();
    if (api_.timestamp(&cupti) != CUPTI_SUCCESS) return;
    const std::int64_t after = trace_now();
    const auto offset = static_cast<double>(static_cast<std::int64_t>(cupti) - before);
    const auto width = static_cast<double>(after - before);
    const double error = std::max(std::abs(offset), std::abs(width - offset));
    best = best ? std::min(*best, error) : error;
  }
  const std::lock_guard lock(mutex_);
  counters_.clock_error_ns = std::max(counters_.clock_error_ns.value_or(0), *best);
}

void CuptiCollector::decode(const Buffer& buffer, TraceWriter& names, TraceBatch& into) {
  CUpti_Activity* record = nullptr;
  while (true) {
    const CUptiResult status = api_.next_record(buffer.data, buffer.bytes, &record);
    if (status == CUPTI_SUCCESS) {
      if (!decoder_.decode(*record, names, into)) add(&DeviceCounters::unknown_kinds, 1);
      continue;
    }
    if (status != CUPTI_ERROR_MAX_LIMIT_REACHED) add(&DeviceCounters::invalid, 1);
    return;
  }
}

} // namespace

Result<std::unique_ptr<DeviceCollector>>
make_cupti_collector(CuptiApi api, const CollectSet& collect, std::size_t memory_limit_bytes) {
  auto collector = std::make_unique<CuptiCollector>(std::move(api), collect, memory_limit_bytes);
  if (Result<bool> started = collector->start(); !started) return started.error();
  return std::unique_ptr<DeviceCollector>(std::move(collector));
}

Result<std::unique_ptr<DeviceCollector>> open_device_collector(const CollectSet& collect,
                                                               std::size_t memory_limit_bytes) {
  Result<CuptiApi> api = load_cupti();
  if (!api) return api.error();
  return make_cupti_collector(std::move(*api), collect, memory_limit_bytes);
}

} // namespace assay
