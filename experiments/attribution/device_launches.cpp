#include "experiments/attribution/device_launches.h"

#include <algorithm>
#include <tuple>

namespace assay {

DeviceLaunches::DeviceLaunches(const std::vector<HostEvent>& api) {
  calls_.reserve(api.size());
  for (const HostEvent& call : api)
    if (call.correlation != 0) calls_.push_back({call.correlation, call.start});
  std::sort(calls_.begin(), calls_.end(), [](const Call& x, const Call& y) {
    return std::tie(x.correlation, x.start) < std::tie(y.correlation, y.start);
  });
}

std::optional<std::int64_t> DeviceLaunches::start_of(const DeviceEvent& event) const {
  const auto after = std::upper_bound(
      calls_.begin(), calls_.end(), event, [](const DeviceEvent& e, const Call& c) {
        return std::tie(e.correlation, e.start) < std::tie(c.correlation, c.start);
      });
  if (after != calls_.begin() && (after - 1)->correlation == event.correlation)
    return (after - 1)->start;
  if (after != calls_.end() && after->correlation == event.correlation) return after->start;
  if (after != calls_.begin() && event.correlation != 0) return (after - 1)->start;
  return std::nullopt;
}

} // namespace assay
