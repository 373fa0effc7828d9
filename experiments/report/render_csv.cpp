#include <cmath>
#include <unordered_map>

#include "core/files/csv_text.h"
#include "experiments/evidence/cell_view.h"
#include "experiments/evidence/pairs.h"
#include "experiments/report/render.h"

namespace assay {

namespace {

constexpr const char* kHeader =
    "cell,optimization,unit,variant,level,role,launch,launch_index,attempt,launch_kind,launch_"
    "state,"
    "host,gpu,build,visit,round,position,warmup,steps,wall_ns,device_ns,unit_ns,tokens,loss,"
    "skipped_steps,steal_share,run_delay_share,load1,voluntary_switches,involuntary_switches,"
    "sm_clock_mhz,memory_clock_mhz,power_w,temperature_c,throttle_reasons,foreign_processes,"
    "disturbance\r\n";

template <class T> std::string or_empty(const std::optional<T>& value) {
  return value ? fmt::format("{}", *value) : "";
}

std::string visit_fields(const CellRow& cell, const VisitRow& visit) {
  const Covariates& c = visit.covariates;
  const double unit_ns = static_cast<double>(visit.wall_ns) / units_of(cell, visit);
  std::string text = fmt::format("{},{},{},{},{},{},{},{},{},{},{}",
                                 visit.id,
                                 visit.round,
                                 visit.position,
                                 visit.warmup ? 1 : 0,
                                 visit.steps,
                                 visit.wall_ns,
                                 or_empty(visit.device_ns),
                                 std::isfinite(unit_ns) ? fmt::format("{}", unit_ns) : "",
                                 visit.tokens,
                                 or_empty(visit.loss),
                                 visit.skipped_steps);
  text += fmt::format(",{},{},{},{},{}",
                      or_empty(c.steal_share),
                      or_empty(c.run_delay_share),
                      or_empty(c.load1),
                      or_empty(c.voluntary_switches),
                      or_empty(c.involuntary_switches));
  text += fmt::format(",{},{},{},{},{},{}",
                      or_empty(c.sm_clock_mhz),
                      or_empty(c.memory_clock_mhz),
                      or_empty(c.power_w),
                      or_empty(c.temperature_c),
                      or_empty(c.throttle_reasons),
                      or_empty(c.foreign_processes));
  return text + "," + csv_field(disturbance(c));
}

std::string launch_fields(const LaunchSummary& summary) {
  const LaunchRow& launch = summary.row;
  return fmt::format("{},{},{},{},{},{},{},{}",
                     launch.id,
                     launch.index,
                     launch.attempt,
                     to_string(launch.kind),
                     summary.state(),
                     csv_field(launch.identity.host),
                     csv_field(launch.identity.gpu),
                     csv_field(launch.identity.build));
}

std::string variant_fields(const LedgerData& data, const VariantRow& variant) {
  const CellRow& cell = data.cell(variant.cell);
  return fmt::format("{},{},{},{},{},{}",
                     csv_field(cell.name),
                     csv_field(cell.optimization),
                     csv_field(cell.unit),
                     csv_field(variant.name),
                     csv_field(variant.level),
                     to_string(variant.role));
}

} // namespace

std::string render_csv(const Report& report, const LedgerData& data) {
  std::unordered_map<std::int64_t, std::string> variants, launches;
  std::unordered_map<std::int64_t, const CellRow*> cells; // by variant
  for (const VariantRow& variant : data.variants) {
    variants[variant.id] = variant_fields(data, variant);
    cells[variant.id] = &data.cell(variant.cell);
  }
  for (const LaunchSummary& launch : report.launches)
    launches[launch.row.id] = launch_fields(launch);
  std::string out = kHeader;
  for (const VisitRow& visit : data.visits)
    out += fmt::format("{},{},{}\r\n",
                       variants[visit.variant],
                       launches[visit.launch],
                       visit_fields(*cells.at(visit.variant), visit));
  return out;
}

} // namespace assay
