#include "ui/model/results/verdict_model.h"

#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "experiments/analysis/report.h"
#include "experiments/analysis/wording.h"

namespace assay {
namespace {

double percent(double log_ratio) {
  return 100 * std::expm1(log_ratio);
}

// Whether a claim gives a range for the time of this cell's unit; end to end is another axis.
bool is_drawn(const ClaimResult& result, const CellRow& cell) {
  const std::optional<ClaimMetric> metric = claim_metric(result.claim.metric);
  return metric && is_share_of_time(*metric) && std::isfinite(result.claim.hi) &&
         (cell.unit == "train_step" || *metric == ClaimMetric::UnitTime);
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

// Labels in a tone of their own, each with a text.
Section labels(const char* id, const char* title) {
  return {.id = id, .title = title, .columns = {{"", false, true}, {""}}};
}

void add(Section& section, const std::string& label, const std::string& text, Tone tone) {
  section.rows.push_back({{label, printable(text)}, "", tone});
}

Section verdict_section(const Comparison& comparison, const Headline& headline) {
  const Verdict& verdict = comparison.verdict;
  Section section = labels("verdict", "Verdict");
  add(section, "in words", headline.text, headline.tone);
  std::string fields = fmt::format("validity {} · speed {} · quality {} · claim {}",
                                   to_string(verdict.validity),
                                   to_string(verdict.speed),
                                   to_string(verdict.quality),
                                   to_string(verdict.claim));
  for (const Tag tag : verdict.tags) fields += fmt::format(" · {}", to_string(tag));
  add(section, "fields", fields, Tone::Neutral);
  return section;
}

Tone tone_of(ClaimState state) {
  switch (state) {
  case ClaimState::Confirmed:
  case ClaimState::Consistent:
    return Tone::Good;
  case ClaimState::Shortfall:
    return Tone::Mixed;
  case ClaimState::Refuted:
  case ClaimState::Opposite:
    return Tone::Bad;
  case ClaimState::Undecided:
  case ClaimState::ConditionsNotMet:
  case ClaimState::NotTested:
    return Tone::Neutral;
  }
  return Tone::Neutral;
}

void add_claim(Section& section, const ClaimResult& result) {
  std::string words =
      fmt::format("claimed {}; {}", claimed_text(result.claim), measured_text(result));
  if (!result.reason.empty()) words += "; " + result.reason.text;
  add(section, claim_state_text(result), words, tone_of(result.state));
  add(section,
      "",
      fmt::format("\"{}\" ({})", result.claim.text, result.claim.source),
      Tone::Neutral);
  if (!result.claim.conditions.empty())
    add(section, "", "conditions: " + result.claim.conditions, Tone::Neutral);
}

// The claims about this comparison, then those about the optimization that no cell can test.
Section claim_section(const Report& report,
                      const CellReport& cell,
                      const std::vector<const ClaimResult*>& claims) {
  Section section = labels("claims", "Claims");
  for (const ClaimResult* claim : claims) add_claim(section, *claim);
  for (const ClaimResult& claim : report.claims)
    if (!claim.cell && claim.claim.optimization == cell.cell.optimization)
      add_claim(section, claim);
  if (section.rows.empty())
    section.notes.push_back("No published claim compares these two levels.");
  return section;
}

Section launch_section(const Report& report, const CellReport& cell) {
  Section section = labels("launches", "Launches");
  for (const LaunchSummary& launch : report.launches) {
    if (launch.row.cell != cell.cell.id) continue;
    std::string words = launch.state();
    if (launch.row.kind == LaunchKind::Timed)
      words += fmt::format(", {} of {} rounds after {} of warm-up",
                           launch.rounds,
                           launch.row.rounds_planned,
                           launch.warmup_rounds);
    if (!launch.row.reason.empty()) words += ", " + launch.row.reason;
    add(section,
        fmt::format("{} {}", to_string(launch.row.kind), launch.row.index),
        words,
        launch.state() == "failed" ? Tone::Bad : Tone::Neutral);
  }
  return section;
}

// The verdict and its claims, then the report's own sections of this comparison.
std::vector<Section> details_of(const Report& report, std::size_t cell_index, std::size_t index) {
  const CellReport& cell = report.cells[cell_index];
  const Comparison& comparison = cell.comparisons[index];
  std::vector<Section> sections{verdict_section(comparison, headline(comparison.verdict)),
                                claim_section(report, cell, claims_of(report, cell_index, index))};
  for (Section& section : comparison_sections(report, cell_index, index))
    sections.push_back(std::move(section));
  sections.push_back(launch_section(report, cell));
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

std::string machine_line(const Identity& identity) {
  std::string line = fmt::format(
      "{} · {} cores, {} · {}",
      identity.cpu,
      identity.cores,
      identity.threads == 1 ? std::string("1 thread") : fmt::format("{} threads", identity.threads),
      identity.kernel);
  if (!identity.gpu.empty())
    line += fmt::format(" · {} · driver {}", identity.gpu, identity.driver);
  line += fmt::format(
      " · LibTorch {} · build {} · host {}", identity.libtorch, identity.build, identity.host);
  return printable(line);
}

std::vector<std::string> provenance(const Report& report) {
  std::vector<std::string> lines{printable(fmt::format("spec {} · seed {} · planned {} · {}",
                                                       report.spec.hash,
                                                       report.spec.seed,
                                                       report.spec.created_utc,
                                                       report.spec.command))};
  for (auto launch = report.launches.rbegin(); launch != report.launches.rend(); ++launch)
    if (!launch->row.identity.build.empty()) {
      lines.push_back(machine_line(launch->row.identity));
      break;
    }
  std::string state = summary_text(report);
  if (!report.missing.empty())
    state += fmt::format(" · still missing: {}", fmt::join(report.missing, "; "));
  lines.push_back(printable(state));
  return lines;
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
