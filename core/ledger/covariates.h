// The covariates of a visit, each named once: columns of the ledger, fields of the protocol, and
// the rule by which a visit counts as disturbed.
#pragma once

#include <string>

#include "core/ledger/ledger.h"

namespace assay {

// Calls field("steal_share", covariates.steal_share), … for every one; names never change.
template <class AnyCovariates, class Field>
void for_each_covariate(AnyCovariates&& c, const Field& field) {
  field("steal_share", c.steal_share);
  field("run_delay_share", c.run_delay_share);
  field("load1", c.load1);
  field("voluntary_switches", c.voluntary_switches);
  field("involuntary_switches", c.involuntary_switches);
  field("sm_clock_mhz", c.sm_clock_mhz);
  field("memory_clock_mhz", c.memory_clock_mhz);
  field("power_w", c.power_w);
  field("temperature_c", c.temperature_c);
  field("throttle_reasons", c.throttle_reasons);
  field("foreign_processes", c.foreign_processes);
  field("energy_j", c.energy_j); // since schema 11
}

// What disturbed a visit ("steal 12 %"), or "". By covariates alone, never by a time.
std::string disturbance(const Covariates& covariates, const DisturbanceLimits& limits = {});

// Whether more of the pairs of a comparison, or of the rounds of a launch, were disturbed than the
// limit allows: no verdict then, or a launch to measure again.
inline bool
beyond_limit(std::int64_t disturbed, std::int64_t all, const DisturbanceLimits& limits) {
  return static_cast<double>(disturbed) > limits.pairs * static_cast<double>(all);
}

} // namespace assay
