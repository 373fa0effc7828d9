// TelemetrySampler: a thread that reads the board's and the host's meters at a fixed rate. A meter
// that the machine refuses has a status in words and no samples, never zeros.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/trace/trace.h"
#include "profilers/machine/nvml_api.h"

namespace assay {

struct TelemetryMeter {
  TelemetryMetric metric;
  std::function<std::optional<double>()> read; // empty when refused
};

// Utilisation, memory, clocks, power, energy, temperature, throttle reasons and PCIe traffic of a
// board. Each meter is tried once; what NVML answers to a failing try becomes its status. A meter
// that can be read keeps NVML open.
std::vector<TelemetryMeter> nvml_meters(const std::shared_ptr<const NvmlApi>& api,
                                        NvmlApi::Device device);
// The same for the board with this UUID ("" the first) through the driver's own library; where
// there is none, one meter whose status gives the reason.
std::vector<TelemetryMeter> gpu_meters(const std::string& uuid);
// Busy share of every core, steal, memory, and the package's power (RAPL) where it is readable.
// Other roots: canned files in tests.
std::vector<TelemetryMeter> machine_meters(const std::string& proc = "/proc",
                                           const std::string& sys = "/sys");
// Run delay and resident memory of this process.
std::vector<TelemetryMeter> process_meters(const std::string& proc = "/proc");
// Both.
std::vector<TelemetryMeter> host_meters(const std::string& proc = "/proc",
                                        const std::string& sys = "/sys");

class TelemetrySampler {
public:
  struct Sample {
    std::int64_t time; // trace_now()
    std::size_t meter;
    double value;
  };

  TelemetrySampler(std::vector<TelemetryMeter> meters, double hz);
  ~TelemetrySampler();
  TelemetrySampler(const TelemetrySampler&) = delete;
  TelemetrySampler& operator=(const TelemetrySampler&) = delete;

  std::vector<TelemetryMetric> metrics() const;
  // The samples since the last call.
  std::vector<Sample> take();

private:
  void run();

  std::vector<TelemetryMeter> meters_;
  std::chrono::nanoseconds period_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::vector<Sample> samples_;
  std::thread thread_;
};

} // namespace assay
