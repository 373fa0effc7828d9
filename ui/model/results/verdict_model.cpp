#include "ui/model/results/verdict_model.h"

#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "experiments/analysis/report.h"
#include "experiments/analysis/report_lines.h"
#include "experiments/analysis/wording.h"
#include "experiments/report/sections/list.h"

namespace assay {
namespace {

double percent(double log_ratio) {
  return 100 * std::expm1(log_ratio);
}

// Whether a claim gives a range for the time of this cell's unit; end to end is another axis.
bool is_drawn(const ClaimResult& result, const CellRow& cell) {
  const std::optional<ClaimMetric> metric = claim_metric(result.claim.metric);
  return metric && is_share_of_time(*metric) && std::isfinite(result.claim.hi) &&
         (cell.unit == "train_step" || cell.unit == "pipeline_step" ||
          *metric == ClaimMetric::UnitTime);
}

// The claimed range as a change of time, of the first claim that applies and has one.
void picture_claim(IntervalPicture& picture,
                   const CellRow& cell,
                   const std::vector<const ClaimResult*>& claims) {
  const auto found = std::find_if(claims.begin(), claims.end(), [&](const ClaimResult* result) {
    return applies(*result) && is_drawn(*result, cell);
  });
  if (found == claims.end()) return;
  const ClaimRow& drawn = (*found)->claim;
  const ClaimMetric metric = *claim_metric(drawn.metric);
  picture.claim_lo = percent(theta_of(metric, drawn.hi)); // a larger gain is a smaller time
  picture.claim_hi = percent(theta_of(metric, drawn.lo));
}

std::optional<IntervalPicture> picture_of(const CellReport& cell,
                                          const Comparison& comparison,
                                          double sesoi,
                                          const std::vector<const ClaimResult*>& claims) {
  if (!comparison.effect || !comparison.effect->theta.judged) return std::nullopt;
  const Estimate& theta = comparison.effect->theta;
  IntervalPicture picture{.point = percent(theta.value),
                          .lo = percent(theta.judged->lower), // the interval of the verdict
                          .hi = percent(theta.judged->upper),
                          .claim_lo = {},
                          .claim_hi = {},
                          .band_lo = {},
                          .band_hi = {}};
  picture.sesoi = 100 * sesoi;
  if (cell.control && cell.control->comparison.effect)
    if (const std::optional<Interval>& band = cell.control->comparison.effect->theta.at_95) {
      picture.band_lo = percent(band->lower);
      picture.band_hi = percent(band->upper);
    }
  picture_claim(picture, cell.cell, claims);
  return picture;
}

// The report's own sections of this comparison, and its cell's launches.
std::vector<Section> details_of(const Report& report, std::size_t cell, std::size_t index) {
  std::vector<Section> sections = comparison_sections(report, cell, index);
  sections.push_back(rows_of_cell(launches_section(report), report.cells[cell].cell.name));
  return sections;
}

std::vector<LaunchPoint> launch_points(const Comparison& comparison) {
  std::vector<LaunchPoint> points;
  if (!comparison.effect) return points;
  for (const LaunchEffect& launch : comparison.effect->launches) {
    const Interval interval = launch.interval.value_or(Interval{launch.theta, launch.theta});
    points.push_back({fmt::format("launch {}", launch.index),
                      percent(launch.theta),
                      percent(interval.lower),
                      percent(interval.upper)});
  }
  return points;
}

VerdictRowModel row_model(const Report& report, std::size_t cell_index, std::size_t index) {
  const CellReport& cell = report.cells[cell_index];
  const Comparison& comparison = cell.comparisons[index];
  const std::vector<const ClaimResult*> claims = claims_of(report, cell_index, index);
  const Headline words = headline(comparison.verdict);
  VerdictRowModel row;
  row.cell = printable(cell.cell.name);
  row.comparison = printable(comparison_text(comparison));
  if (comparison.effect) row.effect = judged_text(comparison.effect->theta);
  row.mde = mde_text(comparison.effect);
  row.memory = memory_text(comparison.memory);
  row.badge = verdict_word(comparison.verdict);
  row.headline = words.text;
  row.tone = words.tone;
  row.interval = picture_of(cell, comparison, report.spec.sesoi, claims);
  row.launches = launch_points(comparison);
  row.details = details_of(report, cell_index, index);
  return row;
}

std::string summary(const Report& report) {
  std::string state = summary_text(report);
  if (!report.missing.empty())
    state += fmt::format(" · still missing: {}", fmt::join(report.missing, "; "));
  return printable(state);
}

std::string provenance(const Report& report) {
  std::string line;
  for (const SectionRow& row : run_section(report).rows)
    line += fmt::format("{}{} {}", line.empty() ? "" : " · ", row.texts[0], row.texts[1]);
  return printable(line);
}

Notice nothing_yet(const LedgerData& data) {
  if (data.cells.empty())
    return {"This plan contains no experiment",
            "The matrix names no optimization, so there is nothing to compare.",
            ""};
  return {"No launch has run yet",
          fmt::format("The plan is here: {} cells, {} timed launches each. Run it, then press F5.",
                      data.cells.size(),
                      data.spec.launches),
          printable(data.spec.command)};
}

} // namespace

double axis_of(const std::vector<VerdictRowModel>& rows) {
  double measured = 0, claimed = 0;
  for (const VerdictRowModel& row : rows) {
    if (!row.interval) continue;
    measured = std::max({measured, std::abs(row.interval->lo), std::abs(row.interval->hi)});
    for (const auto& end : {row.interval->claim_lo, row.interval->claim_hi})
      claimed = std::max(claimed, std::abs(end.value_or(0)));
  }
  return std::max(1.0, 1.05 * std::max(measured, std::min(claimed, 3 * measured)));
}

Notice unreadable(const std::string& message) {
  return {"These results cannot be shown", message, ""};
}

std::optional<IntervalPicture> picture_of(const Estimate& log_ratio) {
  if (!log_ratio.at_95) return std::nullopt;
  IntervalPicture picture;
  picture.point = percent(log_ratio.value);
  picture.lo = percent(log_ratio.at_95->lower);
  picture.hi = percent(log_ratio.at_95->upper);
  return picture;
}

VerdictModel verdict_model(const Result<LedgerData>& ledger) {
  if (ledger) return verdict_model(*ledger, judge_results(*ledger));
  VerdictModel model;
  model.failed = true;
  model.notice = unreadable(ledger.error().message);
  return model;
}

VerdictModel verdict_model(const LedgerData& data, const Report& report) {
  VerdictModel model;
  model.name = printable(report.spec.name);
  model.interval_level = interval_level_text(report);
  model.summary = summary(report);
  model.provenance = provenance(report);
  for (const Alarm& alarm : report.alarms)
    model.alarms.push_back(printable(alarm_text(report, alarm)));
  for (std::size_t cell = 0; cell < report.cells.size(); ++cell)
    for (std::size_t index = 0; index < report.cells[cell].comparisons.size(); ++index)
      model.rows.push_back(row_model(report, cell, index));
  model.axis = axis_of(model.rows);
  if (model.rows.empty() || report.launches.empty()) model.notice = nothing_yet(data);
  return model;
}

} // namespace assay
