// MachineMonitor: reads this machine beside a run, on a thread of its own: the host, and all
// boards.
#pragma once

#include <string>
#include <vector>

#include "core/ledger/ledger.h"
#include "profilers/monitor/meter_values.h"
#include "profilers/trace/telemetry_sampler.h"

namespace assay {

class MachineMonitor {
public:
  explicit MachineMonitor(double seconds); // between readings

  // Those that cannot be read too, with the reason.
  const std::vector<MeterRow>& meters() const { return rows_; }
  // What was read since the last call, in order.
  std::vector<MeterReading> take();
  // The newest reading that take() has returned, in a few words: of the first board, or of the
  // host.
  std::string text() const { return short_text(values_); }

private:
  struct Meters {
    std::vector<MeterRow> rows;
    std::vector<TelemetryMeter> meters;
  };
  static Meters open();
  MachineMonitor(Meters meters, double seconds);

  std::vector<MeterRow> rows_;
  MeterValues values_;
  TelemetrySampler sampler_;
};

} // namespace assay
