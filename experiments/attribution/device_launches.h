// DeviceLaunches: when the host launched a device event, by correlation id.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/trace/trace.h"

namespace assay {

class DeviceLaunches {
public:
  explicit DeviceLaunches(const std::vector<HostEvent>& api);
  // Start of the API call with the event's correlation: ids are 32 bits and come again, so the
  // latest one before the event; after it only where clocks disagree. Calls that are not recorded
  // (driver launches of libraries) take ids too, in the order of the calls: then the start of the
  // last recorded call before it. Nothing when there is none.
  std::optional<std::int64_t> start_of(const DeviceEvent& event) const;

private:
  struct Call {
    std::uint32_t correlation = 0;
    std::int64_t start = 0;
  };
  std::vector<Call> calls_; // by correlation, then start
};

} // namespace assay
