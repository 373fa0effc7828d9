// NvmlApi: the few NVML functions in use, as pointers taken from the driver's libnvidia-ml.so.1 at
// run time. Programs start without a GPU or driver, no NVIDIA header is needed to build, and tests
// put their own functions here. Types mirror nvml.h (stable ABI since driver 510, for the _v3
// process list).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/result.h"

namespace assay {

struct NvmlProcess { // nvmlProcessInfo_v2_t, as nvmlDeviceGetComputeRunningProcesses_v3 fills it
  unsigned pid;
  unsigned long long used_gpu_memory; // bytes
  unsigned gpu_instance, compute_instance;
};

struct NvmlUtilization { // nvmlUtilization_t, percent
  unsigned gpu, memory;
};

struct NvmlMemory { // nvmlMemory_t, bytes
  unsigned long long total, free, used;
};

struct NvmlFieldValue { // nvmlFieldValue_t
  unsigned field, scope;
  long long timestamp, latency_us;
  int type, status; // nvmlValueType_t, nvmlReturn_t
  union {
    double real;
    unsigned number;
    unsigned long long count;
  } value;
};

struct NvmlApi {
  using Status = int; // nvmlReturn_t
  using Device = void*;
  static constexpr Status kSuccess = 0, kNotSupported = 3, kInsufficientSize = 7;
  static constexpr int kSmClock = 1, kMemoryClock = 2; // nvmlClockType_t
  static constexpr int kGpuTemperature = 0;            // nvmlTemperatureSensors_t
  // NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX and _RX, running totals in KiB; all links together.
  static constexpr unsigned kNvlinkSent = 138, kNvlinkReceived = 139, kAllLinks = ~0U;
  // NVML_FI_DEV_POWER_INSTANT in milliwatts; NVML_POWER_SCOPE_MODULE is board and CPU in one.
  static constexpr unsigned kPowerInstant = 186, kModule = 1;

  Status (*init)() = nullptr;
  Status (*shutdown)() = nullptr;
  const char* (*error_string)(Status) = nullptr;
  Status (*driver_version)(char*, unsigned) = nullptr;
  Status (*device_count)(unsigned*) = nullptr;
  Status (*device_by_index)(unsigned, Device*) = nullptr;
  Status (*device_by_uuid)(const char*, Device*) = nullptr;
  Status (*name)(Device, char*, unsigned) = nullptr;
  Status (*uuid)(Device, char*, unsigned) = nullptr;
  Status (*clock)(Device, int, unsigned*) = nullptr;                 // MHz
  Status (*power)(Device, unsigned*) = nullptr;                      // milliwatts
  Status (*temperature)(Device, int, unsigned*) = nullptr;           // degrees C
  Status (*throttle_reasons)(Device, unsigned long long*) = nullptr; // bits
  Status (*processes)(Device, unsigned*, NvmlProcess*) = nullptr;    // in: room, out: count

  // May be missing from a library, then null.
  Status (*utilization)(Device, NvmlUtilization*) = nullptr;
  Status (*memory_info)(Device, NvmlMemory*) = nullptr;
  Status (*compute_capability)(Device, int*, int*) = nullptr; // major, minor
  Status (*energy)(Device, unsigned long long*) = nullptr;    // millijoules since the driver loaded
  Status (*pcie_throughput)(Device,
                            int,
                            unsigned*) = nullptr; // KB/s over 20 ms; the call takes that long
  Status (*field_values)(Device, int, NvmlFieldValue*) = nullptr; // as many as the int says

  std::shared_ptr<void> library; // keeps the functions loaded
};

// Loads the driver's library. The error names what is missing: no driver, or a driver too old.
Result<NvmlApi> load_nvml(const char* library = "libnvidia-ml.so.1");

// "NVML error 4: Insufficient Permissions"
std::string nvml_reason(const NvmlApi& api, NvmlApi::Status status);

// How many processes compute on the board, listed in the first places of `list`, which grows as it
// has to. Nothing where the driver does not say.
std::optional<unsigned>
list_processes(const NvmlApi& api, NvmlApi::Device device, std::vector<NvmlProcess>& list);

// The functions between nvmlInit and nvmlShutdown, which comes with the last owner.
Result<std::shared_ptr<const NvmlApi>> start_nvml(NvmlApi api);

} // namespace assay
