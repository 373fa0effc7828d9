#include "core/ledger/covariates.h"

#include <fmt/ranges.h>

#include <array>
#include <utility>
#include <vector>

namespace assay {

namespace {

// NVML clocksEventReasons. The software power cap is not among them: a variant that draws more
// power runs into it, which is its effect.
constexpr std::array<std::pair<std::int64_t, const char*>, 3> kHardwareThrottle{{
    {0x8, "slowdown"},
    {0x40, "thermal slowdown"},
    {0x80, "power brake"},
}};

std::string throttle_text(std::int64_t reasons) {
  std::vector<const char*> names;
  for (const auto& [bit, name] : kHardwareThrottle)
    if ((reasons & bit) != 0) names.push_back(name);
  return names.empty() ? "" : fmt::format("hardware throttle ({})", fmt::join(names, ", "));
}

} // namespace

std::string disturbance(const Covariates& c, const DisturbanceLimits& limits) {
  if (const std::string throttle = throttle_text(c.throttle_reasons.value_or(0)); !throttle.empty())
    return throttle;
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
