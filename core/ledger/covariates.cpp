#include "core/ledger/covariates.h"

#include <fmt/format.h>

namespace assay {

namespace {

// NVML clocksEventReasons: HW slowdown, HW thermal slowdown, HW power brake. The software power cap
// is not among them: a variant that draws more power runs into it, which is its effect.
constexpr std::int64_t kHardwareThrottle = 0x8 | 0x40 | 0x80;

} // namespace

std::string disturbance(const Covariates& c, const DisturbanceLimits& limits) {
  if (c.throttle_reasons && (*c.throttle_reasons & kHardwareThrottle) != 0)
    return fmt::format("hardware throttle {:#x}", *c.throttle_reasons);
  if (c.foreign_processes && *c.foreign_processes > 0)
    return fmt::format("{} other process{} on the GPU",
                       *c.foreign_processes,
                       *c.foreign_processes == 1 ? "" : "es");
  if (c.steal_share && *c.steal_share > limits.steal)
    return fmt::format("steal {:.0f} %", 100 * *c.steal_share);
  if (c.run_delay_share && *c.run_delay_share > limits.run_delay)
    return fmt::format("threads wait {:.0f} % of the time for a core", 100 * *c.run_delay_share);
  return "";
}

} // namespace assay
