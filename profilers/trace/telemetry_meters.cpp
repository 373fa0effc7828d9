// The meters themselves: NVML's for the board, /proc and /sys for the host.
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>

#include "core/result.h"
#include "core/text.h"
#include "profilers/machine/proc_file.h"
#include "profilers/trace/telemetry_sampler.h"

namespace assay {

namespace {

constexpr int kPcieTransmit = 0, kPcieReceive = 1; // nvmlPcieUtilCounter_t
constexpr NvmlApi::Status kNoPermission = 4;       // NVML_ERROR_NO_PERMISSION

// A meter over one NVML call: `read` returns its status and sets the value.
template <class Read>
TelemetryMeter nvml_meter(const NvmlApi& api, std::string name, bool known, Read read) {
  TelemetryMeter meter{{std::move(name), "NVML", "ok"}, {}};
  if (!known) {
    meter.metric.status = "not supported: the driver's library has no such call";
    return meter;
  }
  double value = 0;
  const NvmlApi::Status status = read(value);
  if (status != NvmlApi::kSuccess) {
    const char* text = api.error_string(status);
    meter.metric.status = fmt::format("{}: {}",
                                      status == kNoPermission ? "not permitted" : "not supported",
                                      text == nullptr ? "?" : printable(text));
    return meter;
  }
  meter.read = [read]() -> std::optional<double> {
    double now = 0;
    if (read(now) != NvmlApi::kSuccess) return std::nullopt;
    return now;
  };
  return meter;
}

// Share of a pair of growing counters between two readings.
struct Share {
  long long part = -1, whole = 0;
  std::optional<double> update(long long new_part, long long new_whole) {
    const bool first = part < 0;
    const long long d_part = new_part - part, d_whole = new_whole - whole;
    part = new_part;
    whole = new_whole;
    if (first || d_whole <= 0 || d_part < 0) return std::nullopt;
    return 100.0 * static_cast<double>(d_part) / static_cast<double>(d_whole);
  }
};

// How much of `unit` a running total grows per second: nothing yet at the first reading, nor where
// a counter began anew.
TelemetryMeter growth(TelemetryMeter meter, double unit) {
  using Clock = std::chrono::steady_clock;
  struct Reading {
    double total;
    Clock::time_point at;
  };
  if (!meter.read) return meter;
  auto last = std::make_shared<std::optional<Reading>>();
  meter.read = [last, unit, read = std::move(meter.read)]() -> std::optional<double> {
    const std::optional<double> total = read();
    if (!total) return std::nullopt;
    const Reading now{*total, Clock::now()};
    const std::optional<Reading> before = std::exchange(*last, now);
    if (!before || now.total < before->total || now.at <= before->at) return std::nullopt;
    const double seconds = std::chrono::duration<double>(now.at - before->at).count();
    return (now.total - before->total) / unit / seconds;
  };
  return meter;
}

struct CoreTimes {
  long long busy = 0, steal = 0, total = 0; // clock ticks
};

// The line of /proc/stat that starts with `label` ("cpu", "cpu0" …).
std::optional<CoreTimes> core_times(const std::string& stat, const std::string& label) {
  std::string_view text(stat);
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (!line.starts_with(label + " ")) continue;
    line.remove_prefix(label.size());
    CoreTimes times;
    for (int column = 0; column < 8; ++column) {
      const std::optional<long long> ticks = take_count(line);
      if (!ticks) return std::nullopt;
      times.total += *ticks;
      if (column != 3 && column != 4) times.busy += *ticks; // neither idle nor waiting for a disk
      if (column == 7) times.steal = *ticks;
    }
    return times;
  }
  return std::nullopt;
}

TelemetryMeter refused(std::string name, const std::string& path) {
  return {{std::move(name), "HOST", "not permitted: " + path + " cannot be read"}, {}};
}

// /proc/stat, read once for the meters of all cores: the kernel sums up every core at each read.
class StatFile {
public:
  explicit StatFile(std::string path) : path_(std::move(path)) {}

  const std::optional<std::string>& text() {
    const auto now = std::chrono::steady_clock::now();
    if (now - read_at_ > kFresh) {
      text_ = read_whole_file(path_);
      read_at_ = now;
    }
    return text_;
  }

private:
  static constexpr std::chrono::milliseconds kFresh{5}; // meters are read in one go
  std::string path_;
  std::optional<std::string> text_;
  std::chrono::steady_clock::time_point read_at_{};
};

TelemetryMeter core_meter(const std::shared_ptr<StatFile>& stat,
                          const std::string& label,
                          const std::string& name,
                          bool steal) {
  auto share = std::make_shared<Share>();
  return {{name, "HOST", "ok"}, [=]() -> std::optional<double> {
            const std::optional<std::string>& text = stat->text();
            const auto times = text ? core_times(*text, label) : std::nullopt;
            if (!times) return std::nullopt;
            return share->update(steal ? times->steal : times->busy, times->total);
          }};
}

// First or second number of a small file, in units of `unit`.
TelemetryMeter file_meter(std::string name, const std::string& path, int column, double unit) {
  if (!read_whole_file(path)) return refused(std::move(name), path);
  return {{std::move(name), "HOST", "ok"}, [=]() -> std::optional<double> {
            const std::optional<std::string> text = read_whole_file(path);
            if (!text) return std::nullopt;
            std::string_view rest(*text);
            std::optional<long long> value;
            for (int i = 0; i <= column; ++i) value = take_count(rest);
            if (!value) return std::nullopt;
            return static_cast<double>(*value) / unit;
          }};
}

// A line of /proc/meminfo in MiB.
std::optional<double> memory_line(const std::string& text, const char* label) {
  const std::size_t at = text.find(label);
  if (at == std::string::npos) return std::nullopt;
  std::string_view rest = std::string_view(text).substr(at + std::strlen(label));
  const std::optional<long long> kib = take_count(rest);
  if (!kib) return std::nullopt;
  return static_cast<double>(*kib) / 1024;
}

// What all processes use of main memory. Caches that the kernel would give back do not count.
TelemetryMeter memory_meter(const std::string& path) {
  std::string name = "Machine memory used [MiB]";
  if (!read_whole_file(path)) return refused(std::move(name), path);
  return {{std::move(name), "HOST", "ok"}, [=]() -> std::optional<double> {
            const std::string text = read_whole_file(path).value_or("");
            const auto total = memory_line(text, "MemTotal:");
            const auto available = memory_line(text, "MemAvailable:");
            if (!total || !available) return std::nullopt;
            return *total - *available;
          }};
}

// Their functions are called while NVML is open.
std::vector<TelemetryMeter> meters_of(const NvmlApi& api, NvmlApi::Device device) {
  std::vector<TelemetryMeter> meters;
  const auto add = [&](const char* name, bool known, auto read) {
    meters.push_back(nvml_meter(api, name, known, read));
  };
  const auto number = [](auto call) {
    return [call](double& value) {
      unsigned raw = 0;
      const NvmlApi::Status status = call(&raw);
      value = raw;
      return status;
    };
  };
  const auto utilization = [f = api.utilization, device](bool memory) {
    return [f, device, memory](double& value) {
      NvmlUtilization raw{};
      const NvmlApi::Status status = f(device, &raw);
      value = memory ? raw.memory : raw.gpu;
      return status;
    };
  };
  add("GPU busy [%]", api.utilization != nullptr, utilization(false));
  add("GPU memory busy [%]", api.utilization != nullptr, utilization(true));
  add("GPU memory used [MiB]",
      api.memory_info != nullptr,
      [f = api.memory_info, device](double& v) {
        NvmlMemory raw{};
        const NvmlApi::Status status = f(device, &raw);
        v = static_cast<double>(raw.used) / 1048576.0;
        return status;
      });
  for (const auto& [name, domain] : {std::pair("SM clock [MHz]", NvmlApi::kSmClock),
                                     std::pair("Memory clock [MHz]", NvmlApi::kMemoryClock)})
    add(name, api.clock != nullptr, number([f = api.clock, device, d = domain](unsigned* raw) {
          return f(device, d, raw);
        }));
  add("Power [W]", api.power != nullptr, [f = api.power, device](double& v) {
    unsigned raw = 0;
    const NvmlApi::Status status = f(device, &raw);
    v = raw / 1000.0;
    return status;
  });
  // Power above is a mean that the driver makes over a time of its own; this one is exact.
  add("Power by energy counter [W]", api.energy != nullptr, [f = api.energy, device](double& v) {
    unsigned long long raw = 0; // millijoules since the driver was loaded
    const NvmlApi::Status status = f(device, &raw);
    v = static_cast<double>(raw);
    return status;
  });
  meters.back() = growth(std::move(meters.back()), 1e3);
  add("Temperature [C]",
      api.temperature != nullptr,
      number([f = api.temperature, device](unsigned* raw) {
        return f(device, NvmlApi::kGpuTemperature, raw);
      }));
  add("Throttle reasons [bits]",
      api.throttle_reasons != nullptr,
      [f = api.throttle_reasons, device](double& v) {
        unsigned long long raw = 0;
        const NvmlApi::Status status = f(device, &raw);
        v = static_cast<double>(raw);
        return status;
      });
  for (const auto& [name, counter] : {std::pair("PCIe sent [KB/s]", kPcieTransmit),
                                      std::pair("PCIe received [KB/s]", kPcieReceive)})
    add(name,
        api.pcie_throughput != nullptr,
        number([f = api.pcie_throughput, device, c = counter](unsigned* raw) {
          return f(device, c, raw);
        }));
  const auto field = [f = api.field_values, device](unsigned id, unsigned scope) {
    return [f, device, id, scope](NvmlFieldValue& raw) {
      raw = NvmlFieldValue{};
      raw.field = id;
      raw.scope = scope;
      const NvmlApi::Status status = f(device, 1, &raw);
      return status == NvmlApi::kSuccess ? raw.status : status;
    };
  };
  add("Module power [W]",
      api.field_values != nullptr,
      [read = field(NvmlApi::kPowerInstant, NvmlApi::kModule)](double& v) {
        NvmlFieldValue raw{};
        const NvmlApi::Status status = read(raw);
        v = raw.value.number / 1000.0;
        return status;
      });
  for (const auto& [name, id] : {std::pair("NVLink sent [KiB/s]", NvmlApi::kNvlinkSent),
                                 std::pair("NVLink received [KiB/s]", NvmlApi::kNvlinkReceived)}) {
    add(name, api.field_values != nullptr, [read = field(id, NvmlApi::kAllLinks)](double& v) {
      NvmlFieldValue raw{};
      const NvmlApi::Status status = read(raw);
      v = static_cast<double>(raw.value.count);
      return status;
    });
    meters.back() = growth(std::move(meters.back()), 1);
  }
  return meters;
}

} // namespace

std::vector<TelemetryMeter> nvml_meters(const std::shared_ptr<const NvmlApi>& api,
                                        NvmlApi::Device device) {
  std::vector<TelemetryMeter> meters = meters_of(*api, device);
  for (TelemetryMeter& meter : meters)
    if (meter.read) meter.read = [api, read = std::move(meter.read)] { return read(); };
  return meters;
}

std::vector<TelemetryMeter> gpu_meters(const std::string& uuid) {
  const auto none = [](const std::string& reason) {
    return std::vector<TelemetryMeter>{{{"GPU", "NVML", "not supported: " + reason}, {}}};
  };
  Result<NvmlApi> loaded = load_nvml();
  if (!loaded) return none(loaded.error().message);
  const Result<std::shared_ptr<const NvmlApi>> started = start_nvml(std::move(*loaded));
  if (!started) return none(started.error().message);
  const std::shared_ptr<const NvmlApi>& api = *started;
  NvmlApi::Device device = nullptr;
  const NvmlApi::Status found =
      uuid.empty() ? api->device_by_index(0, &device) : api->device_by_uuid(uuid.c_str(), &device);
  if (found != NvmlApi::kSuccess) return none("NVML finds no GPU " + uuid);
  return nvml_meters(api, device);
}

std::vector<TelemetryMeter> machine_meters(const std::string& proc, const std::string& sys) {
  std::vector<TelemetryMeter> meters;
  const std::string path = proc + "/stat";
  const std::optional<std::string> text = read_whole_file(path);
  if (!text) {
    meters.push_back(refused("CPU busy [%]", path));
  } else {
    const auto stat = std::make_shared<StatFile>(path);
    meters.push_back(core_meter(stat, "cpu", "CPU busy [%]", false));
    meters.push_back(core_meter(stat, "cpu", "CPU steal [%]", true));
    for (int core = 0; core_times(*text, fmt::format("cpu{}", core)); ++core)
      meters.push_back(core_meter(
          stat, fmt::format("cpu{}", core), fmt::format("CPU {} busy [%]", core), false));
  }
  meters.push_back(memory_meter(proc + "/meminfo"));
  meters.push_back(growth(
      file_meter("CPU package power [W]", sys + "/class/powercap/intel-rapl:0/energy_uj", 0, 1),
      1e6));
  return meters;
}

std::vector<TelemetryMeter> process_meters(const std::string& proc) {
  return {
      growth(file_meter("Run delay of the main thread [%]", proc + "/self/schedstat", 1, 1), 1e7),
      file_meter("Resident memory [MiB]",
                 proc + "/self/statm",
                 1,
                 1048576.0 / static_cast<double>(::sysconf(_SC_PAGE_SIZE)))};
}

std::vector<TelemetryMeter> host_meters(const std::string& proc, const std::string& sys) {
  std::vector<TelemetryMeter> meters = machine_meters(proc, sys);
  for (TelemetryMeter& meter : process_meters(proc)) meters.push_back(std::move(meter));
  return meters;
}

} // namespace assay
