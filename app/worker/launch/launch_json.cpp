#include "app/worker/launch/launch_json.h"

#include <utility>

namespace assay::worker {

using nlohmann::json;

namespace {

json covariates_to_json(const Covariates& c) {
  json out = json::object();
  const auto put = [&](const char* key, const auto& value) {
    if (value) out[key] = *value;
  };
  put("steal_share", c.steal_share);
  put("run_delay_share", c.run_delay_share);
  put("load1", c.load1);
  put("voluntary_switches", c.voluntary_switches);
  put("involuntary_switches", c.involuntary_switches);
  put("sm_clock_mhz", c.sm_clock_mhz);
  put("memory_clock_mhz", c.memory_clock_mhz);
  put("power_w", c.power_w);
  put("temperature_c", c.temperature_c);
  put("throttle_reasons", c.throttle_reasons);
  put("foreign_processes", c.foreign_processes);
  return out;
}

} // namespace

json visit_to_json(std::size_t variant,
                   std::size_t position,
                   const VisitResult& visit,
                   const Covariates& covariates) {
  json out = {{"variant", variant},
              {"position", position},
              {"steps", visit.steps},
              {"wall_ns", visit.wall_ns},
              {"tokens", visit.tokens},
              {"loss", visit.loss},
              {"skipped_steps", visit.skipped_steps},
              {"sample_ns", visit.sample_ns},
              {"covariates", covariates_to_json(covariates)}};
  if (visit.device_ns) out["device_ns"] = *visit.device_ns;
  return out;
}

json metric(json variant, std::string path, std::string unit, double value, std::string detail) {
  return {{"variant", std::move(variant)},
          {"path", std::move(path)},
          {"unit", std::move(unit)},
          {"value", value},
          {"detail", std::move(detail)}};
}

} // namespace assay::worker
