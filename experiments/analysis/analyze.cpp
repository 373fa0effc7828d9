#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "experiments/analysis/judge.h"
#include "experiments/analysis/report.h"
#include "experiments/analysis/wording.h"

namespace assay {

namespace {

constexpr double kMemoryAlarm = 1e-4; // share of peak memory: below lie rounded blocks

const OptimizationRow* optimization_of(const LedgerData& data, const CellRow& cell) {
  for (const OptimizationRow& row : data.optimizations)
    if (row.name == cell.optimization) return &row;
  return nullptr;
}

struct VariantPair {
  const VariantRow* a;
  const VariantRow* b;
  bool against_reference;
};

// Every level against the reference, then the row's further pairs.
std::vector<VariantPair> pairs_to_compare(const LedgerData& data, const CellRow& cell) {
  std::vector<VariantPair> result;
  const auto references = variants_of(data, cell.id, Role::Reference);
  const auto levels = variants_of(data, cell.id, Role::Level);
  if (!references.empty())
    for (const VariantRow* level : levels) result.push_back({references.front(), level, true});
  const OptimizationRow* row = optimization_of(data, cell);
  if (!row) return result;
  const auto by_level = [&](const std::string& name) -> const VariantRow* {
    for (const VariantRow* level : levels)
      if (level->level == name) return level;
    return nullptr; // the reference is compared with every level above
  };
  for (const auto& [from, to] : row->also_compare) {
    const VariantRow* a = by_level(from);
    const VariantRow* b = by_level(to);
    if (a && b) result.push_back({a, b, false});
  }
  return result;
}

bool answers(const ClaimRow& claim, const CellRow& cell, const VariantRow& a, const VariantRow& b) {
  return claim.optimization == cell.optimization && claim.from == a.level && claim.to == b.level;
}

// Board name of a cell's launches, "" on the CPU or before the first launch.
std::string gpu_of(const LedgerData& data, const CellRow& cell) {
  for (const LaunchRow& launch : data.launches)
    if (launch.cell == cell.id && !launch.identity.gpu.empty()) return launch.identity.gpu;
  return "";
}

Comparison compare(const LedgerData& data,
                   const VisitIndex& visits,
                   const CellRow& cell,
                   const VariantPair& variants,
                   double judged_alpha) {
  Comparison result;
  result.a = variants.a->name;
  result.b = variants.b->name;
  result.a_id = variants.a->id;
  result.b_id = variants.b->id;
  result.against_reference = variants.against_reference;
  result.pairs = collect_pairs(data, visits, *variants.a, *variants.b);
  result.a_ranks = rank_times(data, *variants.a);
  result.b_ranks = rank_times(data, *variants.b);
  EffectOptions options{judged_alpha, data.spec.power, data.spec.sesoi, false};
  result.effect = estimate_effect(result.pairs, options);
  result.device = device_effect(result.pairs, options);
  result.position = position_effect(result.pairs, judged_alpha);
  if (result.effect)
    result.end_to_end = end_to_end(data, cell, result.pairs, *result.effect, judged_alpha);
  options.with_excluded = true;
  result.effect_all = estimate_effect(result.pairs, options);
  result.memory = memory_effect(data, *variants.a, *variants.b, judged_alpha);
  result.evidence = gather_evidence(data, visits, cell, *variants.a, *variants.b);
  if (variants.b->role == Role::Control) return result;
  result.loss = loss_test(data, visits, cell, *variants.a, *variants.b, judged_alpha);
  const OptimizationRow* row = optimization_of(data, cell);
  if (row) judge_by_training(result.evidence, result.pairs, result.loss, row->equivalence);
  return result;
}

std::optional<ControlReport> control_of(const LedgerData& data,
                                        const VisitIndex& visits,
                                        const CellRow& cell,
                                        double judged_alpha) {
  const auto references = variants_of(data, cell.id, Role::Reference);
  const auto controls = variants_of(data, cell.id, Role::Control);
  if (references.empty() || controls.empty()) return std::nullopt;
  ControlReport control;
  control.comparison =
      compare(data, visits, cell, {references.front(), controls.front(), true}, judged_alpha);
  if (const auto& effect = control.comparison.effect;
      effect && effect->launches.size() >= static_cast<std::size_t>(kProvisionalLaunches))
    control.alarm = *effect->theta.p < kControlAlarmP &&
                    std::abs(std::expm1(effect->theta.value)) > data.spec.sesoi;
  return control;
}

// Builds that a cell's counted launches ran with, as "a, b".
std::set<std::string> builds_of(const LedgerData& data, const CellRow& cell) {
  std::set<std::string> builds;
  for (const LaunchRow& launch : data.launches)
    if (launch.cell == cell.id && is_counted(launch)) builds.insert(launch.identity.build);
  return builds;
}

// Thread counts of a cell's counted launches: a time on two threads is none on one.
std::set<int> threads_of(const LedgerData& data, const CellRow& cell) {
  std::set<int> threads;
  for (const LaunchRow& launch : data.launches)
    if (launch.cell == cell.id && is_counted(launch)) threads.insert(launch.identity.threads);
  return threads;
}

std::string why_invalid(const LedgerData& data, const CellReport& cell) {
  for (const Comparison& comparison : cell.comparisons)
    if (!comparison.pairs.work_mismatch.empty())
      return fmt::format("unequal work, {} against {}: {}",
                         comparison.b,
                         comparison.a,
                         comparison.pairs.work_mismatch);
  if (cell.control && !cell.control->comparison.pairs.work_mismatch.empty())
    return "unequal work of the control: " + cell.control->comparison.pairs.work_mismatch;
  if (const auto builds = builds_of(data, cell.cell); builds.size() > 1)
    return fmt::format(
        "launches of {} builds are mixed: {}", builds.size(), fmt::join(builds, ", "));
  if (const auto threads = threads_of(data, cell.cell); threads.size() > 1)
    return fmt::format("launches on different numbers of threads are mixed: {}",
                       fmt::join(threads, ", "));
  if (cell.control && cell.control->alarm) {
    const Estimate& theta = cell.control->comparison.effect->theta;
    return fmt::format("the A/A control differs from the reference: {} (p = {:.2g})",
                       effect_text(theta),
                       *theta.p);
  }
  return "";
}

void note_missing(const LedgerData& data, CellReport& cell) {
  bool parity = false, memory = false, traced = false;
  for (const LaunchRow& launch : data.launches) {
    if (launch.cell != cell.cell.id || launch.state != LaunchState::Complete) continue;
    parity |= launch.kind == LaunchKind::Parity;
    memory |= launch.kind == LaunchKind::Memory;
    traced |= launch.kind == LaunchKind::Traced;
  }
  if (!parity) cell.missing.push_back("parity launch");
  if (cell.counted_launches < cell.planned_launches)
    cell.missing.push_back(fmt::format("{} of {} timed launches",
                                       cell.planned_launches - cell.counted_launches,
                                       cell.planned_launches));
  if (!memory) cell.missing.push_back("memory launch");
  if (cell.loss_launches < cell.cell.loss_seeds)
    cell.missing.push_back(fmt::format(
        "{} of {} loss launches", cell.cell.loss_seeds - cell.loss_launches, cell.cell.loss_seeds));
  if (!traced && cell.cell.traced_rounds > 0) cell.missing.push_back("traced launch");
}

// Distinct launch indices that count.
int counted_launches(const LedgerData& data, const CellRow& cell) {
  std::set<int> indices;
  for (const LaunchRow& launch : data.launches)
    if (launch.cell == cell.id && is_counted(launch)) indices.insert(launch.index);
  return static_cast<int>(indices.size());
}

int loss_launches(const LedgerData& data, const CellRow& cell) {
  std::set<int> indices;
  for (const LaunchRow& launch : data.launches)
    if (launch.cell == cell.id && launch.kind == LaunchKind::Loss &&
        launch.state == LaunchState::Complete)
      indices.insert(launch.index);
  return static_cast<int>(indices.size());
}

CellReport report_cell(const LedgerData& data,
                       const VisitIndex& visits,
                       const CellRow& cell,
                       double judged_alpha) {
  CellReport result;
  result.cell = cell;
  if (const OptimizationRow* row = optimization_of(data, cell)) {
    result.summary = row->summary;
    result.equivalence = row->equivalence;
  }
  result.planned_launches = data.spec.launches;
  result.counted_launches = counted_launches(data, cell);
  result.launches_with_copies = static_cast<int>(
      std::count_if(data.launches.begin(), data.launches.end(), [&](const LaunchRow& launch) {
        return launch.cell == cell.id && is_counted(launch);
      }));
  result.loss_launches = loss_launches(data, cell);
  result.loss_curves = loss_curves(data, visits, cell);
  result.control = control_of(data, visits, cell, judged_alpha);
  for (const VariantPair& pair : pairs_to_compare(data, cell))
    result.comparisons.push_back(compare(data, visits, cell, pair, judged_alpha));
  const CellContext context{why_invalid(data, result), data.spec.sesoi};
  for (Comparison& comparison : result.comparisons) judge(comparison, context);
  note_missing(data, result);
  return result;
}

std::vector<ClaimResult>
judge_claim_everywhere(const LedgerData& data, Report& report, const ClaimRow& claim) {
  std::vector<ClaimResult> results;
  for (std::size_t i = 0; i < report.cells.size(); ++i) {
    CellReport& cell = report.cells[i];
    for (std::size_t j = 0; j < cell.comparisons.size(); ++j) {
      const Comparison& comparison = cell.comparisons[j];
      if (!answers(claim, cell.cell, data.variant(comparison.a_id), data.variant(comparison.b_id)))
        continue;
      ClaimResult result =
          judge_claim(claim, cell.cell, comparison, gpu_of(data, cell.cell), data.spec.sesoi);
      result.cell = i;
      result.comparison = j;
      results.push_back(std::move(result));
    }
  }
  if (results.empty()) {
    ClaimResult untested;
    untested.claim = claim;
    untested.reason =
        claim.unmet.empty() ? "no cell of the matrix compares these levels" : claim.unmet;
    results.push_back(std::move(untested));
  }
  return results;
}

void judge_claims(const LedgerData& data, Report& report) {
  for (const ClaimRow& claim : data.claims)
    for (ClaimResult& result : judge_claim_everywhere(data, report, claim))
      report.claims.push_back(std::move(result));
  adopt_claims(report);
}

LaunchSummary summarize(const LedgerData& data, const VisitIndex& visits, const LaunchRow& launch) {
  LaunchSummary summary;
  summary.row = launch;
  for (const CellRow& cell : data.cells)
    if (cell.id == launch.cell) summary.cell = cell.name;
  std::set<int> timed, warmup;
  for (const VisitRow* visit : visits.of_launch(launch.id))
    (visit->warmup ? warmup : timed).insert(visit->round);
  summary.rounds = static_cast<int>(timed.size());
  summary.warmup_rounds = static_cast<int>(warmup.size());
  return summary;
}

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

void note_surroundings(Report& report) {
  struct Found {
    std::set<std::string> all, timed;
  };
  std::map<std::pair<std::string, std::string>, Found> values; // by cell and field
  for (const LaunchSummary& launch : report.launches) {
    if (launch.row.state != LaunchState::Complete && launch.row.state != LaunchState::Partial)
      continue;
    for (const auto& [field, value] : environment_fields(launch.row.identity)) {
      Found& found = values[{launch.cell, field}];
      found.all.insert(value.empty() ? "unknown" : value);
      if (is_counted(launch.row)) found.timed.insert(value);
    }
  }
  for (const auto& [place, found] : values)
    if (found.all.size() > 1)
      report.alarms.push_back(
          fmt::format("{}: launches ran with different {}: {}; {}",
                      place.first,
                      place.second,
                      fmt::join(found.all, ", "),
                      found.timed.size() > 1 ? "pairs never cross them, but the interval spans them"
                                             : "those that were timed are alike"));
}

double control_memory_gap(const CellReport& cell) {
  if (!cell.control) return 0;
  const std::optional<MemoryEffect>& memory = cell.control->comparison.memory;
  return memory ? std::expm1(memory->noise.value_or(0)) : 0;
}

void note_alarms(const LedgerData& data, Report& report) {
  for (const VariantRow& variant : data.variants)
    if (const std::string why = retirement(data, variant); !why.empty())
      report.alarms.push_back(fmt::format("{}: retired: {}", data.cell(variant.cell).name, why));
  for (const CellReport& cell : report.cells) {
    if (cell.control && cell.control->alarm)
      report.alarms.push_back(
          fmt::format("{}: the A/A control differs from the reference by {}, p = {:.2g}",
                      cell.cell.name,
                      effect_text(cell.control->comparison.effect->theta),
                      *cell.control->comparison.effect->theta.p));
    if (const double apart = control_memory_gap(cell); apart > kMemoryAlarm)
      report.alarms.push_back(fmt::format("{}: peak memory of the reference, measured twice, is {} "
                                          "apart: no smaller difference of memory is shown",
                                          cell.cell.name,
                                          share_text(apart)));
    for (const Comparison& comparison : cell.comparisons)
      if (comparison.pairs.excluded > 0)
        report.alarms.push_back(
            fmt::format("{}: {} of {} pairs {} against {} excluded (disturbed by other work)",
                        cell.cell.name,
                        comparison.pairs.excluded,
                        comparison.pairs.pairs,
                        comparison.b,
                        comparison.a));
  }
  std::map<std::string, std::pair<std::set<std::string>, std::set<std::string>>> places; // by cell
  for (const LaunchSummary& launch : report.launches) {
    if (!is_counted(launch.row)) continue;
    auto& [hosts, boards] = places[launch.cell];
    hosts.insert(launch.row.identity.host);
    boards.insert(launch.row.identity.gpu_uuid);
  }
  for (const auto& [cell, place] : places)
    if (place.first.size() > 1 || place.second.size() > 1)
      report.alarms.push_back(
          fmt::format("{}: launches ran on {} host{} and {} board{}; pairs never cross them, but "
                      "the interval spans them",
                      cell,
                      place.first.size(),
                      place.first.size() == 1 ? "" : "s",
                      place.second.size(),
                      place.second.size() == 1 ? "" : "s"));
  note_surroundings(report);
  for (const LaunchSummary& launch : report.launches)
    if (launch.row.state == LaunchState::Failed)
      report.alarms.push_back(fmt::format("{}: {} launch {} (attempt {}) failed: {}",
                                          launch.cell,
                                          to_string(launch.row.kind),
                                          launch.row.index,
                                          launch.row.attempt + 1, // as `assay run` counts them
                                          launch.row.reason));
}

} // namespace

int count_judgements(const LedgerData& plan) {
  const auto levels =
      std::count_if(plan.variants.begin(), plan.variants.end(), [](const VariantRow& variant) {
        return variant.role == Role::Level;
      });
  return std::max(1, static_cast<int>(levels));
}

Report analyze(const LedgerData& data) {
  const VisitIndex visits(data);
  Report report;
  report.spec = data.spec;
  report.judgements = count_judgements(data);
  report.judged_alpha = data.spec.alpha / report.judgements;
  report.events = data.events;
  for (const CellRow& cell : data.cells)
    report.cells.push_back(report_cell(data, visits, cell, report.judged_alpha));
  judge_claims(data, report);
  for (const LaunchRow& launch : data.launches)
    report.launches.push_back(summarize(data, visits, launch));
  note_alarms(data, report);
  for (const CellReport& cell : report.cells)
    for (const std::string& missing : cell.missing)
      report.missing.push_back(cell.cell.name + ": " + missing);
  return report;
}

std::vector<const ClaimResult*>
claims_of(const Report& report, std::size_t cell, std::size_t comparison) {
  std::vector<const ClaimResult*> result;
  for (const ClaimResult& claim : report.claims)
    if (claim.cell == cell && claim.comparison == comparison) result.push_back(&claim);
  return result;
}

} // namespace assay
