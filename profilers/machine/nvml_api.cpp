#include "profilers/machine/nvml_api.h"

#include <dlfcn.h>

#include <algorithm>
#include <string>
#include <utility>

#include "core/text.h"

namespace assay {
namespace {

class Symbols {
public:
  explicit Symbols(void* library) : library_(library) {}

  template <class Function> void bind(Function& function, const char* name) {
    function = reinterpret_cast<Function>(::dlsym(library_, name));
    if (function == nullptr && missing_.empty()) missing_ = name;
  }
  template <class Function> void bind_optional(Function& function, const char* name) {
    function = reinterpret_cast<Function>(::dlsym(library_, name));
  }
  const std::string& missing() const { return missing_; }

private:
  void* library_;
  std::string missing_;
};

} // namespace

Result<NvmlApi> load_nvml(const char* library) {
  void* const handle = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    return fail("no NVIDIA driver library ({}); GPU clocks, power and throttling are not recorded",
                ::dlerror());
  NvmlApi api;
  api.library = std::shared_ptr<void>(handle, [](void* loaded) { ::dlclose(loaded); });
  Symbols symbols(handle);
  symbols.bind(api.init, "nvmlInit_v2");
  symbols.bind(api.shutdown, "nvmlShutdown");
  symbols.bind(api.error_string, "nvmlErrorString");
  symbols.bind(api.driver_version, "nvmlSystemGetDriverVersion");
  symbols.bind(api.device_count, "nvmlDeviceGetCount_v2");
  symbols.bind(api.device_by_index, "nvmlDeviceGetHandleByIndex_v2");
  symbols.bind(api.device_by_uuid, "nvmlDeviceGetHandleByUUID");
  symbols.bind(api.name, "nvmlDeviceGetName");
  symbols.bind(api.uuid, "nvmlDeviceGetUUID");
  symbols.bind(api.clock, "nvmlDeviceGetClockInfo");
  symbols.bind(api.power, "nvmlDeviceGetPowerUsage");
  symbols.bind(api.temperature, "nvmlDeviceGetTemperature");
  symbols.bind(api.throttle_reasons, "nvmlDeviceGetCurrentClocksThrottleReasons");
  symbols.bind(api.processes, "nvmlDeviceGetComputeRunningProcesses_v3");
  if (!symbols.missing().empty())
    return fail("{} has no {}; the NVIDIA driver is too old (510 or newer is needed)",
                library,
                symbols.missing());
  symbols.bind_optional(api.utilization, "nvmlDeviceGetUtilizationRates");
  symbols.bind_optional(api.memory_info, "nvmlDeviceGetMemoryInfo");
  symbols.bind_optional(api.compute_capability, "nvmlDeviceGetCudaComputeCapability");
  symbols.bind_optional(api.energy, "nvmlDeviceGetTotalEnergyConsumption");
  symbols.bind_optional(api.pcie_throughput, "nvmlDeviceGetPcieThroughput");
  symbols.bind_optional(api.field_values, "nvmlDeviceGetFieldValues");
  return api;
}

std::string nvml_reason(const NvmlApi& api, NvmlApi::Status status) {
  const char* const text = api.error_string(status);
  return fmt::format("NVML error {}: {}", status, text == nullptr ? "?" : printable(text));
}

std::optional<unsigned>
list_processes(const NvmlApi& api, NvmlApi::Device device, std::vector<NvmlProcess>& list) {
  constexpr int kAttempts = 3; // more may start meanwhile
  constexpr unsigned kMaxProcesses = 65'536, kRoom = 8;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    auto count = static_cast<unsigned>(list.size());
    const NvmlApi::Status status = api.processes(device, &count, list.data());
    if (status == NvmlApi::kSuccess && count <= list.size()) return count;
    if (status != NvmlApi::kInsufficientSize || count > kMaxProcesses) return std::nullopt;
    list.resize(std::max<std::size_t>(count + kRoom, list.size()));
  }
  return std::nullopt;
}

Result<std::shared_ptr<const NvmlApi>> start_nvml(NvmlApi api) {
  if (const NvmlApi::Status started = api.init(); started != NvmlApi::kSuccess)
    return fail("the NVIDIA driver does not start: {}", nvml_reason(api, started));
  return std::shared_ptr<const NvmlApi>(new NvmlApi(std::move(api)), [](const NvmlApi* used) {
    used->shutdown();
    delete used;
  });
}

} // namespace assay
