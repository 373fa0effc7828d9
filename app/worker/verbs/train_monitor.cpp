#include "app/worker/verbs/train_monitor.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <utility>
#include <vector>

#include "core/files/atomic_file.h"
#include "core/files/csv_text.h"
#include "core/result.h"
#include "core/system_call.h"
#include "core/text.h"

namespace assay::worker {

namespace {

std::vector<TelemetryMeter> meters_of(const std::optional<std::string>& board) {
  std::vector<TelemetryMeter> meters = host_meters();
  if (board)
    for (TelemetryMeter& meter : gpu_meters(*board)) meters.push_back(std::move(meter));
  std::erase_if(meters, [](const TelemetryMeter& meter) { return !meter.read; });
  return meters;
}

std::string header_of(const std::vector<TelemetryMetric>& metrics) {
  std::string header = "time_unix_s,step";
  for (const TelemetryMetric& metric : metrics) header += "," + csv_field(metric.name);
  return header + "\n";
}

bool begins_with(const std::string& path, const std::string& header) {
  std::ifstream file(path);
  std::string line;
  return std::getline(file, line) && line + "\n" == header;
}

} // namespace

TrainMonitor::TrainMonitor(const std::string& directory,
                           std::int64_t first,
                           double seconds,
                           const std::optional<std::string>& board)
    : sampler_(meters_of(board), 1 / seconds), values_(sampler_.metrics()),
      path_(directory + "/monitor.csv") {
  const std::string header = header_of(values_.metrics());
  if (first == 0 || !begins_with(path_, header)) write_file_atomically(path_, header);
  file_.reset(std::fopen(path_.c_str(), "a"));
  if (file_ == nullptr) bad_input("cannot write {}: {}", path_, system_cause(errno));
}

std::string TrainMonitor::take(std::int64_t step) {
  const std::vector<TelemetrySampler::Sample> samples = sampler_.take();
  const auto begins = [&](std::size_t i) { // a round has each meter at most once, in order
    return i == 0 || samples[i].meter <= samples[i - 1].meter;
  };
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (begins(i)) values_.clear();
    values_.set(samples[i].meter, samples[i].value);
    if (i + 1 == samples.size() || begins(i + 1)) write_row(samples[i].time, step);
  }
  any_ = any_ || !samples.empty();
  return any_ ? short_text(values_) : "";
}

void TrainMonitor::write_row(std::int64_t time_ns, std::int64_t step) {
  std::string row = fmt::format("{:.3f},{}", static_cast<double>(time_ns) / 1e9, step);
  for (std::size_t i = 0; i < values_.metrics().size(); ++i) {
    const std::optional<double> value = values_.value(i);
    row += value ? fmt::format(",{:.6g}", *value) : ",";
  }
  fmt::print(file_.get(), "{}\n", row);
  if (std::fflush(file_.get()) != 0) bad_input("cannot write {}: {}", path_, system_cause(errno));
}

} // namespace assay::worker
