// TrainMonitor: reads the machine while `assay train` runs, on a thread of its own, into
// monitor.csv beside train.csv, so that both can be followed while they grow.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "profilers/monitor/meter_values.h"
#include "profilers/trace/telemetry_sampler.h"

namespace assay::worker {

class TrainMonitor {
public:
  // `board`: UUID of the GPU that the training uses, nothing on a CPU. A training that continues
  // (`first` > 0) adds to a file with the same meters; any other file is begun anew.
  TrainMonitor(const std::string& directory,
               std::int64_t first,
               double seconds,
               const std::optional<std::string>& board);

  // Writes what was read since the last call as rows of this step; the newest reading in a few
  // words, "" before the first. Throws bad input where the file cannot be written.
  std::string take(std::int64_t step);

private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  void write_row(std::int64_t time_ns, std::int64_t step);

  TelemetrySampler sampler_;
  MeterValues values_;
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  bool any_ = false;
};

} // namespace assay::worker
