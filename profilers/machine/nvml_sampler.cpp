#include "profilers/machine/nvml_sampler.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include "core/text.h"

namespace assay {
namespace {

// Beyond these a reading is the driver's "unknown" (all bits set) or broken, on any board.
constexpr unsigned kMaxClockMhz = 20'000;
constexpr unsigned kMaxPowerMilliwatts = 20'000'000;
constexpr unsigned kMaxTemperature = 150;

// Text of an NVML call that fills a buffer; "" if it fails.
template <class Call> std::string text_of(Call call) {
  char buffer[128] = {};
  if (call(buffer, static_cast<unsigned>(sizeof buffer - 1)) != NvmlApi::kSuccess) return "";
  return printable(std::string_view(buffer, ::strnlen(buffer, sizeof buffer)));
}

std::int64_t memory_of(const NvmlApi& api, NvmlApi::Device device) {
  NvmlMemory memory{};
  const bool known =
      api.memory_info != nullptr && api.memory_info(device, &memory) == NvmlApi::kSuccess;
  return known ? static_cast<std::int64_t>(memory.total) : 0;
}

int capability_of(const NvmlApi& api, NvmlApi::Device device) {
  int major = 0, minor = 0;
  const bool known = api.compute_capability != nullptr &&
                     api.compute_capability(device, &major, &minor) == NvmlApi::kSuccess;
  return known ? 10 * major + minor : 0;
}

GpuInfo read_info(const NvmlApi& api, NvmlApi::Device device) {
  return {text_of([&](char* text, unsigned size) { return api.name(device, text, size); }),
          text_of([&](char* text, unsigned size) { return api.uuid(device, text, size); }),
          text_of([&](char* text, unsigned size) { return api.driver_version(text, size); }),
          memory_of(api, device),
          capability_of(api, device)};
}

// Processes that take turns with this one have its parent, and wait while this one is timed.
bool is_sibling(unsigned pid) {
  std::ifstream file(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("PPid:")) return line == fmt::format("PPid:\t{}", ::getppid());
  return false;
}

} // namespace

bool in_initial_pid_namespace() {
  char link[64] = {};
  const ssize_t size = ::readlink("/proc/self/ns/pid", link, sizeof link - 1);
  return size > 0 && std::string_view(link) == "pid:[4026531836]"; // PROC_PID_INIT_INO of Linux
}

Result<NvmlSampler> NvmlSampler::open(const std::string& uuid, NvmlApi api, bool own_pid_visible) {
  Result<std::shared_ptr<const NvmlApi>> started = start_nvml(std::move(api));
  if (!started) return started.error();
  NvmlSampler sampler;
  sampler.nvml_ = std::move(*started);
  const NvmlApi& nvml = *sampler.nvml_;
  const NvmlApi::Status found = uuid.empty() ? nvml.device_by_index(0, &sampler.device_)
                                             : nvml.device_by_uuid(uuid.c_str(), &sampler.device_);
  if (found != NvmlApi::kSuccess)
    return fail("NVML finds no GPU {}: {}", uuid.empty() ? "0" : uuid, nvml_reason(nvml, found));
  sampler.info_ = read_info(nvml, sampler.device_);
  sampler.processes_.resize(16);
  sampler.own_pid_visible_ = own_pid_visible;
  return sampler;
}

Result<NvmlSampler> NvmlSampler::open(const std::string& uuid) {
  Result<NvmlApi> api = load_nvml();
  if (!api) return api.error();
  return open(uuid, std::move(*api));
}

std::optional<double> NvmlSampler::read_clock(int domain) const {
  unsigned mhz = 0;
  if (nvml_->clock(device_, domain, &mhz) != NvmlApi::kSuccess) return std::nullopt;
  if (mhz == 0 || mhz > kMaxClockMhz) return std::nullopt;
  return mhz;
}

std::optional<std::int64_t> NvmlSampler::count_foreign_processes() {
  const std::optional<unsigned> count = list_processes(*nvml_, device_, processes_);
  if (!count) return std::nullopt;
  const auto end = processes_.begin() + *count;
  const auto own = std::count_if(processes_.begin(), end, [](const NvmlProcess& process) {
    return process.pid == static_cast<unsigned>(::getpid());
  });
  // Without our own entry the list is of other numbers, or filtered: it proves nothing about
  // strangers.
  if (own == 0 && !own_pid_visible_) return std::nullopt;
  return std::count_if(processes_.begin(), end, [](const NvmlProcess& process) {
    return process.pid != static_cast<unsigned>(::getpid()) && !is_sibling(process.pid);
  });
}

void NvmlSampler::sample(Covariates& into) {
  const NvmlApi& nvml = *nvml_;
  into.sm_clock_mhz = read_clock(NvmlApi::kSmClock);
  into.memory_clock_mhz = read_clock(NvmlApi::kMemoryClock);
  unsigned value = 0;
  if (nvml.power(device_, &value) == NvmlApi::kSuccess && value <= kMaxPowerMilliwatts)
    into.power_w = value / 1000.0;
  if (nvml.temperature(device_, NvmlApi::kGpuTemperature, &value) == NvmlApi::kSuccess &&
      value <= kMaxTemperature)
    into.temperature_c = value;
  unsigned long long bits = 0;
  if (nvml.throttle_reasons(device_, &bits) == NvmlApi::kSuccess && bits < (1ULL << 32))
    into.throttle_reasons = static_cast<std::int64_t>(bits);
  into.foreign_processes = count_foreign_processes();
}

std::optional<double> NvmlSampler::energy_j() const {
  unsigned long long millijoules = 0;
  const NvmlApi& nvml = *nvml_;
  if (nvml.energy == nullptr || nvml.energy(device_, &millijoules) != NvmlApi::kSuccess ||
      millijoules == 0)
    return std::nullopt;
  return static_cast<double>(millijoules) / 1000;
}

Result<std::vector<GpuInfo>> list_gpus(const NvmlApi& api) {
  const Result<std::shared_ptr<const NvmlApi>> nvml = start_nvml(api);
  if (!nvml) return nvml.error();
  unsigned count = 0;
  if (const NvmlApi::Status counted = api.device_count(&count); counted != NvmlApi::kSuccess)
    return fail("NVML cannot count GPUs: {}", nvml_reason(api, counted));
  std::vector<GpuInfo> gpus;
  for (unsigned index = 0; index < count; ++index) {
    NvmlApi::Device device = nullptr;
    const NvmlApi::Status found = api.device_by_index(index, &device);
    if (found != NvmlApi::kSuccess)
      return fail("NVML cannot open GPU {} of {}: {}", index, count, nvml_reason(api, found));
    gpus.push_back(read_info(api, device));
  }
  return gpus;
}

Result<std::vector<GpuInfo>> list_gpus() {
  const Result<NvmlApi> api = load_nvml();
  if (!api) return api.error();
  return list_gpus(*api);
}

} // namespace assay
