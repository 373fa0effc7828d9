// MeterValues: the last value of each meter, and how the monitor says them in a few words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "profilers/trace/telemetry_sampler.h"

namespace assay {

class MeterValues {
public:
  explicit MeterValues(std::vector<TelemetryMetric> metrics);

  const std::vector<TelemetryMetric>& metrics() const { return metrics_; }
  void clear(); // no meter has a value
  void set(std::size_t meter, std::optional<double> value) { values_.at(meter) = value; }
  std::optional<double> value(std::size_t meter) const { return values_.at(meter); }
  // Of the meter with this name; nothing where there is none, or it has no value (yet).
  std::optional<double> value(std::string_view name) const;

private:
  std::vector<TelemetryMetric> metrics_;
  std::vector<std::optional<double>> values_;
};

std::vector<TelemetryMetric> metrics_of(const std::vector<TelemetryMeter>& meters);
// Asks every meter once.
void read_meters(const std::vector<TelemetryMeter>& meters, MeterValues& values);

// "software power cap, thermal slowdown": NVML's clocksEventReasons that hold a clock down; "" for
// none, and for a board that idles or whose clocks somebody set.
std::string throttle_words(std::uint64_t reasons);

// What has no value is left out.
// "98 % busy, memory 31 % busy, 1605 MHz, 688 W, 61 °C, PCIe 3.1 MiB/s out, 12 MiB/s in"
std::string board_text(const MeterValues& values);
// "CPU 97 % busy, 5.1 GiB of memory used, steal 2 %, package 45 W"
std::string host_text(const MeterValues& values);
// For a progress line, of the board, or of the host where no board has values:
// "GPU 98 % 19.7 GiB 1605 MHz 688 W 61 C", "CPU 97 % 512.0 MiB".
std::string short_text(const MeterValues& values);

} // namespace assay
