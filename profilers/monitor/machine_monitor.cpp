#include "profilers/monitor/machine_monitor.h"

#include <utility>

#include "profilers/monitor/boards.h"

namespace assay {

MachineMonitor::Meters MachineMonitor::open() {
  Meters all;
  const auto add = [&](const std::string& board, std::vector<TelemetryMeter> meters) {
    for (TelemetryMeter& meter : meters) {
      const TelemetryMetric& metric = meter.metric;
      all.rows.push_back({board, metric.name, metric.source, metric.status});
      all.meters.push_back(std::move(meter));
    }
  };
  add("", machine_meters());
  Result<std::vector<Board>> boards = open_boards();
  if (!boards) add("", {TelemetryMeter{{"GPU", "NVML", boards.error().message}, {}}});
  if (boards)
    for (Board& board : *boards) add(board.info.uuid, std::move(board.meters));
  return all;
}

MachineMonitor::MachineMonitor(double seconds) : MachineMonitor(open(), seconds) {}

MachineMonitor::MachineMonitor(Meters meters, double seconds)
    : rows_(std::move(meters.rows)), values_(metrics_of(meters.meters)),
      sampler_(std::move(meters.meters), 1 / seconds) {}

std::vector<MeterReading> MachineMonitor::take() {
  std::vector<MeterReading> readings;
  for (const TelemetrySampler::Sample& sample : sampler_.take()) {
    if (!readings.empty() && sample.meter <= readings.back().meter) values_.clear();
    values_.set(sample.meter, sample.value);
    readings.push_back({sample.time, sample.meter, sample.value});
  }
  return readings;
}

} // namespace assay
