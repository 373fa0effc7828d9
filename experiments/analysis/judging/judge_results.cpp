#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/ledger/stored_config.h"
#include "core/statistics/looks.h"
#include "experiments/analysis/calibration.h"
#include "experiments/analysis/explanations.h"
#include "experiments/analysis/judging/alarms.h"
#include "experiments/analysis/judging/compare.h"
#include "experiments/analysis/judging/estimate_roofline.h"
#include "experiments/analysis/judging/judge.h"
#include "experiments/analysis/partial_launches.h"
#include "experiments/analysis/report.h"
#include "experiments/analysis/shape_warnings.h"
#include "experiments/analysis/winner.h"
#include "experiments/analysis/wording.h"
#include "experiments/evidence/owed/continuation.h"
#include "experiments/evidence/owed/plan_state.h"
#include "experiments/evidence/owed/redo.h"

namespace assay {

namespace {

// Builds, thread counts … of a cell's counted launches.
template <class Field> auto counted_values(const CellView& cell, Field Identity::*field) {
  std::set<Field> values;
  for (const LaunchRow* launch : cell.counted) values.insert(launch->identity.*field);
  return values;
}

std::optional<Reason> why_invalid(const CellView& view, const CellReport& cell) {
  for (const Comparison& comparison : cell.comparisons)
    if (!comparison.pairs.work_mismatch.empty())
      return Reason{ReasonCode::UnequalWork,
                    fmt::format("unequal work, {} against {}: {}",
                                comparison.b,
                                comparison.a,
                                comparison.pairs.work_mismatch)};
  if (cell.control && !cell.control->comparison.pairs.work_mismatch.empty())
    return Reason{ReasonCode::UnequalWork,
                  "unequal work of the control: " + cell.control->comparison.pairs.work_mismatch};
  if (const auto builds = counted_values(view, &Identity::build); builds.size() > 1)
    return Reason{
        ReasonCode::MixedBuilds,
        fmt::format("launches of {} builds are mixed: {}", builds.size(), fmt::join(builds, ", "))};
  // A time on two threads is none on one.
  if (const auto threads = counted_values(view, &Identity::threads); threads.size() > 1)
    return Reason{ReasonCode::MixedThreads,
                  fmt::format("launches on different numbers of threads are mixed: {}",
                              fmt::join(threads, ", "))};
  if (cell.control && cell.control->alarm) {
    const Estimate& theta = cell.control->comparison.effect->theta;
    return Reason{ReasonCode::ControlAlarm,
                  fmt::format("the A/A control differs from the baseline: {} (p = {:.2g})",
                              effect_text(theta),
                              *theta.p)};
  }
  return std::nullopt;
}

void note_missing(const LedgerData& data, Report& report) {
  const PlanProgress progress = plan_progress(data);
  for (CellReport& cell : report.cells)
    for (const OwedLaunches& owed : progress.owed)
      if (owed.cell == cell.cell.id) {
        cell.missing.push_back(owed_text(owed));
        report.missing.push_back(cell.cell.name + ": " + cell.missing.back());
      }
}

// Each once.
std::vector<std::string> shape_warnings_of(const CellView& view) {
  std::vector<std::string> all;
  for (const VariantRow* variant : view.variants)
    for (const std::string& text : shape_warnings(stored_config(variant->config_json)))
      if (std::find(all.begin(), all.end(), text) == all.end()) all.push_back(text);
  return all;
}

// "to measure `what` again on a quiet machine: `…`", or why not.
std::string redo_text(const CellView& view,
                      const std::string& directory,
                      const std::string& what,
                      const std::string& again) {
  if (const std::string why_not = why_not_continued(*view.spec); !why_not.empty())
    return "these results cannot be continued: " + why_not;
  return fmt::format("to measure {} again on a quiet machine: `{}`",
                     what,
                     directory.empty()
                         ? recorded_redo_command(*view.spec, view.cell->name, {again})
                         : redo_command(*view.spec, view.cell->name, directory, {again}));
}

// The next action where other work spoiled launches.
std::optional<Reason>
redo_reason(const CellView& view, int disturbed, const std::string& directory) {
  if (disturbed == 0) return std::nullopt;
  return Reason{ReasonCode::PairsDisturbed,
                "other work disturbed launches; " +
                    redo_text(view, directory, "them", kCauseDisturbed)};
}

// The same where it disturbed one side more: the cell's name chooses all of its launches, those
// within the limit too.
Reason redo_cell_reason(const CellView& view, const std::string& directory) {
  return {ReasonCode::ArmsDisturbed, redo_text(view, directory, "the cell", view.cell->name)};
}

using DisturbedByCell = std::map<std::int64_t, int>;

DisturbedByCell count_disturbed(const LedgerData& data) {
  DisturbedByCell counts;
  for (const DisturbedLaunch& launch : disturbed_rounds(data)) counts[launch.cell] += launch.beyond;
  return counts;
}

// A cell with looks is judged at the level of its look.
Levels levels_of(const CellView& view, Levels levels) {
  if (const std::vector<int>& looks = view.cell->looks; !looks.empty())
    levels.judged_alpha = look_levels(levels.judged_alpha, looks)[view.look];
  return levels;
}

CellReport report_cell(const LedgerData& data,
                       const CellView& view,
                       const Levels& levels,
                       int disturbed,
                       const JudgeOptions& options) {
  CellReport result;
  result.disturbed_launches = disturbed;
  result.shape_warnings = shape_warnings_of(view);
  result.cell = *view.cell;
  if (view.optimization) {
    result.summary = view.optimization->summary;
    result.design = view.optimization->design;
  }
  result.equivalence = view.equivalence();
  result.planned_launches = view.planned_launches;
  result.judged_alpha = levels.judged_alpha;
  result.looks = view.looks;
  std::set<int> indices;
  for (const LaunchRow* launch : view.counted) indices.insert(launch->index);
  result.counted_launches = static_cast<int>(indices.size());
  result.superseded_launches = static_cast<int>(view.superseded.size());
  result.replaced_attempts = view.replaced;
  result.redone_by_name = view.redone_by_name;
  result.launches_set_aside = view.set_aside;
  result.launches_with_copies = static_cast<int>(view.counted.size());
  result.loss_launches = view.complete_indices(LaunchKind::Loss);
  result.no_energy = why_no_energy(view);
  result.loss_curves = loss_curves(view);
  result.control = compare_control(view, levels);
  for (const VariantPair& pair : pairs_to_compare(view))
    result.comparisons.push_back(compare(view, pair, levels));
  CellContext context{why_invalid(view, result),
                      view.spec->sesoi,
                      redo_reason(view, disturbed, options.run_again_in),
                      redo_cell_reason(view, options.run_again_in)};
  for (Comparison& comparison : result.comparisons) {
    judge(comparison, context);
    for (std::optional<Reason>* redo : {&context.redo, &context.redo_cell})
      if (*redo && std::ranges::any_of(comparison.verdict.reasons, [&](const Reason& reason) {
            return reason.text == (*redo)->text;
          }))
        redo->reset(); // the command is about the whole cell
  }
  result.contrasts = judge_contrasts(view, result.comparisons, context, levels);
  explain_from_traces(result, data, view, options.traces);
  estimate_roofline(result, view);
  return result;
}

bool answers(const ClaimRow& claim, const CellView& cell, const VariantPair& pair) {
  if (names_keys(claim))
    return compares_keys(cell.optimization) && key_mismatch(claim, *pair.a, *pair.b).empty();
  return claim.optimization == cell.cell->optimization && claim.from == pair.a->level &&
         claim.to == pair.b->level;
}

std::string no_cell_text(const LedgerData& data, const ClaimRow& claim) {
  if (!names_keys(claim)) return "no cell of the matrix compares these levels";
  const std::string miss = key_claim_fit(data, claim).miss;
  return "no cell of the matrix compares these sets of keys" + (miss.empty() ? "" : "; " + miss);
}

std::vector<ClaimResult> judge_claim_everywhere(const LedgerData& data,
                                                const std::vector<CellView>& cells,
                                                const Report& report,
                                                const ClaimRow& claim) {
  std::vector<ClaimResult> results;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::vector<VariantPair> pairs = pairs_to_compare(cells[i]);
    for (std::size_t j = 0; j < pairs.size(); ++j) {
      if (!answers(claim, cells[i], pairs[j])) continue;
      const Comparison& comparison = report.cells[i].comparisons[j];
      ClaimResult result =
          judge_claim(claim, cells[i], comparison, padding_share_of(report.cells[i], comparison.a));
      result.cell = i;
      result.comparison = j;
      results.push_back(std::move(result));
    }
  }
  if (results.empty()) {
    ClaimResult untested;
    untested.claim = claim;
    untested.reason = claim.unmet.empty() ? Reason{ReasonCode::NoCell, no_cell_text(data, claim)}
                                          : Reason{ReasonCode::NotTestable, claim.unmet};
    results.push_back(std::move(untested));
  }
  return results;
}

LaunchSummary summarize(const CellView& cell, const LaunchRow& launch, const Report& report) {
  LaunchSummary summary;
  summary.row = launch;
  summary.cell = cell.cell->name;
  summary.interrupted =
      std::any_of(report.events.begin(), report.events.end(), [&](const EventRow& event) {
        return event.launch == launch.id && event.kind == "stopped";
      });
  std::set<int> timed, warmup;
  for (const VariantRow* variant : cell.variants)
    for (const VisitRow* visit : cell.visits(launch.id, variant->id))
      (visit->warmup ? warmup : timed).insert(visit->round);
  summary.rounds = static_cast<int>(timed.size());
  summary.warmup_rounds = static_cast<int>(warmup.size());
  return summary;
}

// NVML clocksEventReasons: a setting of the clocks binds them.
constexpr std::int64_t kClockSetting = 0x2;

std::optional<Clocks> clocks_of(const std::vector<CellView>& cells) {
  std::optional<Clocks> clocks;
  for (const CellView& cell : cells)
    for (const LaunchRow* launch : cell.counted)
      for (const VariantRow* variant : cell.variants)
        for (const VisitRow* visit : cell.visits(launch->id, variant->id)) {
          const Covariates& c = visit->covariates;
          if (visit->warmup || !c.sm_clock_mhz) continue;
          if (!clocks) clocks = Clocks{*c.sm_clock_mhz, *c.sm_clock_mhz, true};
          clocks->lowest_mhz = std::min(clocks->lowest_mhz, *c.sm_clock_mhz);
          clocks->highest_mhz = std::max(clocks->highest_mhz, *c.sm_clock_mhz);
          clocks->locked = clocks->locked && (c.throttle_reasons.value_or(0) & kClockSetting) != 0;
        }
  return clocks;
}

int count_judgements(const std::vector<CellView>& cells) {
  std::size_t verdicts = 0;
  for (const CellView& cell : cells) {
    verdicts += pairs_to_compare(cell).size();
    if (cell.optimization) verdicts += cell.optimization->contrasts.size();
  }
  return std::max(1, static_cast<int>(verdicts));
}

int count_loss_tests(const std::vector<CellView>& cells) {
  std::size_t tests = 0;
  for (const CellView& cell : cells)
    if (cell.cell->loss_seeds > 0) tests += pairs_to_compare(cell).size();
  return static_cast<int>(tests);
}

} // namespace

double padding_share_of(const CellReport& cell, const std::string& variant) {
  const auto found = std::ranges::find(cell.speed, variant, &VariantSpeed::variant);
  return found == cell.speed.end() ? 0 : found->padding_share;
}

Report judge_results(const LedgerData& data, const JudgeOptions& options) {
  const std::vector<CellView> cells = cell_views(data);
  Report report;
  report.spec = data.spec;
  report.judgements = count_judgements(cells);
  report.judged_alpha = data.spec.alpha / report.judgements;
  report.loss_tests = count_loss_tests(cells);
  report.loss_alpha = kTostAlpha / std::max(1, report.loss_tests);
  const Levels levels{report.judged_alpha, report.loss_alpha};
  report.events = data.events;
  DisturbedByCell disturbed = count_disturbed(data);
  for (const CellView& cell : cells)
    report.cells.push_back(
        report_cell(data, cell, levels_of(cell, levels), disturbed[cell.cell->id], options));
  for (const ClaimRow& claim : data.claims)
    for (ClaimResult& result : judge_claim_everywhere(data, cells, report, claim))
      report.claims.push_back(std::move(result));
  adopt_claims(report);
  for (const CellView& cell : cells)
    for (const LaunchRow* launch : cell.launches) {
      report.launches.push_back(summarize(cell, *launch, report));
      report.launches.back().replaced = data.superseded(launch->id);
      report.launches.back().set_aside = data.set_aside(launch->id);
    }
  std::stable_sort(report.launches.begin(),
                   report.launches.end(),
                   [](const auto& x, const auto& y) { return x.row.id < y.row.id; });
  count_partial_launches(report);
  report.clocks = clocks_of(cells);
  report.notes = data.notes;
  report.threads_vary = threads_vary(data);
  report.calibration = cited_calibration(data);
  note_alarms(cells, report);
  report.shape_warnings = shape_warnings(data);
  report.source_errors = source_errors(data);
  note_missing(data, report);
  report.winner = winner_of(report);
  if (!options.traces.empty()) read_confirmation(options.traces, report);
  return report;
}

int count_judgements(const LedgerData& plan) {
  return count_judgements(cell_views(plan));
}

std::string LaunchSummary::state() const {
  if (replaced) return "replaced";
  if (set_aside) return "set aside";
  return row.state == LaunchState::Failed && interrupted ? "interrupted"
                                                         : std::string(to_string(row.state));
}

std::vector<const ClaimResult*>
claims_of(const Report& report, std::size_t cell, std::size_t comparison) {
  std::vector<const ClaimResult*> result;
  for (const ClaimResult& claim : report.claims)
    if (claim.cell == cell && claim.comparison == comparison) result.push_back(&claim);
  return result;
}

} // namespace assay
