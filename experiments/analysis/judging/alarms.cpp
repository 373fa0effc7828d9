#include "experiments/analysis/judging/alarms.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "experiments/analysis/calibration.h"
#include "experiments/analysis/judging/judge.h"
#include "experiments/analysis/wording.h"
#include "experiments/evidence/owed/plan_state.h"

namespace assay {

namespace {

// What a launch ran with, beside host, board and build: the same in all launches of a cell.
std::vector<std::pair<const char*, std::string>> environment_fields(const Identity& id) {
  return {{"threads", std::to_string(id.threads)},
          {"usable cores", std::to_string(id.cores)},
          {"processor", id.cpu},
          {"board", id.gpu},
          {"driver", id.driver},
          {"CUDA", id.cuda},
          {"LibTorch", id.libtorch},
          {"kernel", id.kernel}};
}

void add_environment_alarms(Report& report) {
  struct Found {
    std::set<std::string> all, timed;
  };
  std::map<std::pair<std::int64_t, std::string>, Found> values; // by cell and field
  for (const LaunchSummary& launch : report.launches) {
    if (!has_results(launch.row.state)) continue;
    for (const auto& [field, value] : environment_fields(launch.row.identity)) {
      Found& found = values[{launch.row.cell, field}];
      found.all.insert(value.empty() ? "unknown" : value);
      if (is_counted(launch.row)) found.timed.insert(value);
    }
  }
  for (const auto& [place, found] : values)
    if (found.all.size() > 1)
      report.alarms.push_back(
          {AlarmCode::MixedEnvironment,
           place.first,
           {},
           fmt::format("launches ran with different {}: {}; {}",
                       place.second,
                       fmt::join(found.all, ", "),
                       found.timed.size() > 1
                           ? "each pair comes from one of them, but the interval mixes them"
                           : "those that were timed are alike")});
}

void note_places(Report& report) {
  std::map<std::int64_t, std::pair<std::set<std::string>, std::set<std::string>>> places;
  for (const LaunchSummary& launch : report.launches) {
    if (!is_counted(launch.row)) continue;
    auto& [hosts, boards] = places[launch.row.cell];
    hosts.insert(launch.row.identity.host);
    boards.insert(launch.row.identity.gpu_uuid);
  }
  for (const auto& [cell, place] : places)
    if (place.first.size() > 1 || place.second.size() > 1)
      report.alarms.push_back(
          {AlarmCode::SeveralMachines,
           cell,
           {},
           fmt::format("launches ran on {} host{} and {} board{}; each pair comes from one of "
                       "them, but the interval mixes them",
                       place.first.size(),
                       place.first.size() == 1 ? "" : "s",
                       place.second.size(),
                       place.second.size() == 1 ? "" : "s")});
}

double control_memory_gap(const CellReport& cell) {
  if (!cell.control) return 0;
  const std::optional<MemoryEffect>& memory = cell.control->comparison.memory;
  return memory ? std::expm1(memory->noise.value_or(0)) : 0;
}

// What disturbed the excluded pairs of a comparison and why that matters, or "": a few of many
// change nothing, and the table has the effect of all pairs beside the verdict.
std::string
why_exclusion_matters(const Comparison& comparison, const CellReport& cell, const SpecRow& spec) {
  const PairSet& pairs = comparison.pairs;
  if (pairs.all_excluded() == 0) return "";
  if (pairs.contended) return "disturbed by other work; no verdict";
  if (const std::size_t left_out = pairs.launches.size() - pairs.counted_launches(); left_out > 0)
    return fmt::format("other work disturbed more than half of {}",
                       left_out == 1 ? "that launch's pairs" : "the pairs of those launches");
  if (cell.disturbed_launches > 0)
    return fmt::format("other work disturbed more than {:.0f} % of the rounds of {}",
                       100 * spec.limits.pairs,
                       launch_count_text(static_cast<std::size_t>(cell.disturbed_launches)));
  if (!comparison.effect || !comparison.effect_all) return "";
  const Speed all = decided_speed(*comparison.effect_all, spec.sesoi);
  return all == decided_speed(*comparison.effect, spec.sesoi)
             ? ""
             : fmt::format("disturbed by other work; by all pairs the verdict is {}",
                           to_string(all));
}

void note_cell(const CellReport& cell, const SpecRow& spec, std::vector<Alarm>& alarms) {
  const auto alarm = [&](AlarmCode code, std::string text, std::string comparison = {}) {
    alarms.push_back({code, cell.cell.id, std::move(comparison), std::move(text)});
  };
  if (cell.control && cell.control->alarm) {
    const Estimate& theta = cell.control->comparison.effect->theta;
    alarm(AlarmCode::ControlDiffers,
          fmt::format("the A/A control differs from the baseline by {}, p = {:.2g}",
                      effect_text(theta),
                      *theta.p));
  }
  if (const double gap = control_memory_gap(cell); gap > kMemoryNoise)
    alarm(AlarmCode::MemoryDiffers,
          fmt::format("two measurements of the baseline's peak memory differ by {}; a smaller "
                      "difference of memory is not shown beside the verdict",
                      share_text(gap)));
  for (const std::string& why : cell.damaged_traces) alarm(AlarmCode::TraceDamaged, why);
  for (const Comparison& comparison : cell.comparisons)
    if (const std::string why = why_exclusion_matters(comparison, cell, spec); !why.empty())
      alarm(AlarmCode::PairsExcluded,
            fmt::format("{}: {}", excluded_text(comparison.pairs), why),
            comparison_text(comparison));
}

// Metrics "fallback/<key>" of every kind of launch, added up by variant.
void note_fallbacks(const CellView& cell, std::vector<Alarm>& alarms) {
  constexpr std::string_view kPrefix = "fallback/";
  for (const VariantRow* variant : cell.variants) {
    std::map<std::string, std::pair<double, int>> seen; // by key: calls, launches
    for (const LaunchRow* launch : cell.launches)
      for (const MetricRow* metric : cell.metrics(launch->id)) {
        if (metric->variant != variant->id || !metric->path.starts_with(kPrefix)) continue;
        auto& [calls, launches] = seen[metric->path.substr(kPrefix.size())];
        calls += metric->value, ++launches;
      }
    for (const auto& [key, found] : seen)
      alarms.push_back(
          {AlarmCode::Fallback,
           cell.cell->id,
           {},
           fmt::format("{} did not always run the {} that it names: {:.0f} calls in {} "
                       "fell back to the reference, so its times mix the two",
                       variant->name,
                       key,
                       found.first,
                       launch_count_text(static_cast<std::size_t>(found.second)))});
  }
}

// Failures of one cell, kind and reason are one alarm.
void note_failures(Report& report) {
  struct Failed {
    std::set<int> indices;
    int attempts = 0, first = 0; // `first`: as `assay run` counts them, from 1
  };
  std::vector<std::tuple<std::int64_t, LaunchKind, std::string>> order;
  std::map<std::tuple<std::int64_t, LaunchKind, std::string>, Failed> failures;
  for (const LaunchSummary& launch : report.launches) {
    if (launch.row.state != LaunchState::Failed || launch.interrupted || launch.set_aside) continue;
    const std::tuple key{launch.row.cell, launch.row.kind, launch.row.reason};
    Failed& failed = failures[key];
    if (failed.attempts++ == 0) order.push_back(key), failed.first = launch.row.attempt + 1;
    failed.indices.insert(launch.row.index);
  }
  for (const auto& key : order) {
    const auto& [cell, kind, reason] = key;
    const Failed& failed = failures.at(key);
    const std::string launches = numbered_launches_text(kind, failed.indices);
    report.alarms.push_back(
        {AlarmCode::LaunchFailed,
         cell,
         {},
         failed.attempts == 1
             ? fmt::format("{} (attempt {}) failed: {}", launches, failed.first, reason)
             : fmt::format("{} attempts of {} failed: {}", failed.attempts, launches, reason)});
  }
}

} // namespace

std::string_view to_string(AlarmCode code) {
  switch (code) {
  case AlarmCode::Retired:
    return "retired";
  case AlarmCode::Untraced:
    return "untraced";
  case AlarmCode::ControlDiffers:
    return "control_differs";
  case AlarmCode::MemoryDiffers:
    return "memory_differs";
  case AlarmCode::PairsExcluded:
    return "pairs_excluded";
  case AlarmCode::Fallback:
    return "fallback";
  case AlarmCode::SeveralMachines:
    return "several_machines";
  case AlarmCode::MixedEnvironment:
    return "mixed_environment";
  case AlarmCode::LaunchFailed:
    return "launch_failed";
  case AlarmCode::TraceDamaged:
    return "trace_damaged";
  case AlarmCode::Calibration:
    return "calibration";
  }
  return "unknown";
}

void note_alarms(const std::vector<CellView>& cells, Report& report) {
  for (const CellView& cell : cells)
    for (const VariantRow* variant : cell.variants)
      if (const RetiredVariant* retired = cell.retired(*variant))
        report.alarms.push_back({AlarmCode::Retired,
                                 cell.cell->id,
                                 {},
                                 fmt::format("{} retired: {}", variant->name, retired->text)});
  for (const CellView& cell : cells)
    if (!cell.untraced.empty())
      report.alarms.push_back(
          {AlarmCode::Untraced, cell.cell->id, {}, fmt::format("no trace: {}", cell.untraced)});
  for (const CellView& cell : cells) note_fallbacks(cell, report.alarms);
  for (const CellReport& cell : report.cells) note_cell(cell, report.spec, report.alarms);
  note_places(report);
  add_environment_alarms(report);
  note_failures(report);
  if (report.calibration && calibration_state(*report.calibration) == CalibrationState::Alarm)
    report.alarms.push_back({AlarmCode::Calibration, 0, {}, calibration_text(*report.calibration)});
}

} // namespace assay
