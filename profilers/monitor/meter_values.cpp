#include "profilers/monitor/meter_values.h"

#include <fmt/ranges.h>

#include <array>
#include <utility>

#include "core/text.h"

namespace assay {

namespace {

constexpr double kMiB = 1048576, kKiB = 1024, kKB = 1000;

// NVML's clocksEventReasons (nvml.h).
constexpr std::array<std::pair<std::uint64_t, const char*>, 6> kReasons{{
    {0x4, "software power cap"},
    {0x8, "hardware slowdown"},
    {0x10, "sync boost"},
    {0x20, "software thermal slowdown"},
    {0x40, "hardware thermal slowdown"},
    {0x80, "power brake"},
}};

std::string rate_text(double bytes_per_second) {
  return human_bytes(bytes_per_second) + "/s";
}

// Words with values, in the order of the calls.
class Words {
public:
  explicit Words(const MeterValues& values) : values_(values) {}

  void add(std::string_view name, fmt::format_string<double> format) {
    if (const auto value = values_.value(name))
      words_.push_back(fmt::vformat(format, fmt::make_format_args(*value)));
  }
  // `unit`: bytes of one of the meter's.
  void add_bytes(std::string_view name, double unit, fmt::format_string<std::string> format) {
    const auto value = values_.value(name);
    if (!value) return;
    const std::string bytes = human_bytes(*value * unit);
    words_.push_back(fmt::vformat(format, fmt::make_format_args(bytes)));
  }
  void add_rates(const char* link, std::string_view sent, std::string_view received, double unit) {
    const auto out = values_.value(sent), in = values_.value(received);
    if (out && in)
      words_.push_back(
          fmt::format("{} {} out, {} in", link, rate_text(*out * unit), rate_text(*in * unit)));
  }
  void add(std::string word) {
    if (!word.empty()) words_.push_back(std::move(word));
  }
  std::string joined(const char* between) const {
    return fmt::format("{}", fmt::join(words_, between));
  }
  bool empty() const { return words_.empty(); }

private:
  const MeterValues& values_;
  std::vector<std::string> words_;
};

} // namespace

MeterValues::MeterValues(std::vector<TelemetryMetric> metrics)
    : metrics_(std::move(metrics)), values_(metrics_.size()) {}

void MeterValues::clear() {
  values_.assign(values_.size(), std::nullopt);
}

std::optional<double> MeterValues::value(std::string_view name) const {
  for (std::size_t i = 0; i < metrics_.size(); ++i)
    if (metrics_[i].name == name) return values_[i];
  return std::nullopt;
}

std::vector<TelemetryMetric> metrics_of(const std::vector<TelemetryMeter>& meters) {
  std::vector<TelemetryMetric> metrics;
  for (const TelemetryMeter& meter : meters) metrics.push_back(meter.metric);
  return metrics;
}

void read_meters(const std::vector<TelemetryMeter>& meters, MeterValues& values) {
  for (std::size_t i = 0; i < meters.size(); ++i)
    values.set(i, meters[i].read ? meters[i].read() : std::nullopt);
}

std::string throttle_words(std::uint64_t reasons) {
  std::vector<const char*> words;
  for (const auto& [bit, word] : kReasons)
    if ((reasons & bit) != 0) words.push_back(word);
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string board_text(const MeterValues& values) {
  Words words(values);
  words.add("GPU busy [%]", "{:.0f} % busy");
  words.add("GPU memory busy [%]", "memory {:.0f} % busy");
  words.add_bytes("GPU memory used [MiB]", kMiB, "{} used");
  words.add("SM clock [MHz]", "{:.0f} MHz");
  words.add("Power [W]", "{:.0f} W");
  words.add("Module power [W]", "module {:.0f} W");
  words.add("Temperature [C]", "{:.0f} °C");
  words.add_rates("PCIe", "PCIe sent [KB/s]", "PCIe received [KB/s]", kKB);
  words.add_rates("NVLink", "NVLink sent [KiB/s]", "NVLink received [KiB/s]", kKiB);
  if (const auto reasons = values.value("Throttle reasons [bits]"))
    if (const std::string why = throttle_words(static_cast<std::uint64_t>(*reasons)); !why.empty())
      words.add("slowed by " + why);
  return words.joined(", ");
}

std::string host_text(const MeterValues& values) {
  Words words(values);
  words.add("CPU busy [%]", "CPU {:.0f} % busy");
  words.add_bytes("Machine memory used [MiB]", kMiB, "{} of memory used");
  words.add("CPU steal [%]", "steal {:.0f} %");
  words.add("CPU package power [W]", "package {:.0f} W");
  return words.joined(", ");
}

std::string short_text(const MeterValues& values) {
  Words words(values);
  words.add("GPU busy [%]", "GPU {:.0f} %");
  words.add_bytes("GPU memory used [MiB]", kMiB, "{}");
  words.add("SM clock [MHz]", "{:.0f} MHz");
  words.add("Power [W]", "{:.0f} W");
  words.add("Temperature [C]", "{:.0f} C");
  if (words.empty()) {
    words.add("CPU busy [%]", "CPU {:.0f} %");
    words.add_bytes("Resident memory [MiB]", kMiB, "{}");
  }
  return words.joined(" ");
}

} // namespace assay
