#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "experiments/analysis/report_lines.h"
#include "experiments/analysis/wording.h"
#include "experiments/evidence/loss/loss.h"
#include "experiments/report/html/html_section.h"
#include "experiments/report/html/html_style.h"
#include "experiments/report/html/svg.h"
#include "experiments/report/render.h"
#include "experiments/report/render_explain.h"

namespace assay {

namespace {

std::string h(const std::string& text) {
  return html_prose(text);
}

std::optional<Interval> band_of(const CellReport& cell) {
  if (!cell.control || !cell.control->comparison.effect) return std::nullopt;
  return cell.control->comparison.effect->theta.at_95;
}

// The claimed range as a log ratio of time, for claims that apply and are about what the row shows.
std::optional<Interval> claimed_range(const std::vector<const ClaimResult*>& claims,
                                      bool end_to_end) {
  for (const ClaimResult* claim : claims) {
    const auto metric = claim_metric(claim->claim.metric);
    if (!metric || !is_share_of_time(*metric) || claim->end_to_end != end_to_end ||
        !applies(*claim))
      continue;
    const double low = theta_of(*metric, claim->claim.hi),
                 high = theta_of(*metric, claim->claim.lo);
    if (std::isfinite(low) && std::isfinite(high)) return Interval{low, high};
  }
  return std::nullopt;
}

std::vector<ForestRow> forest_rows(const Report& report) {
  std::vector<ForestRow> rows;
  for (std::size_t i = 0; i < report.cells.size(); ++i) {
    const CellReport& cell = report.cells[i];
    for (std::size_t j = 0; j < cell.comparisons.size(); ++j) {
      const Comparison& comparison = cell.comparisons[j];
      if (!comparison.effect) continue;
      const auto claims = claims_of(report, i, j);
      const std::string label = comparison_text(comparison);
      rows.push_back({label,
                      cell.cell.name,
                      verdict_word(comparison.verdict),
                      judged_text(comparison.effect->theta),
                      comparison.effect->theta.value,
                      comparison.effect->theta.judged,
                      band_of(cell),
                      claimed_range(claims, false),
                      false});
      if (comparison.end_to_end && claimed_range(claims, true))
        rows.push_back({label,
                        cell.cell.name + ", end to end",
                        "share of training time",
                        judged_text(comparison.end_to_end->log_ratio),
                        comparison.end_to_end->log_ratio.value,
                        comparison.end_to_end->log_ratio.judged,
                        std::nullopt,
                        claimed_range(claims, true),
                        false});
    }
    if (cell.control && cell.control->comparison.effect) {
      const Estimate& theta = cell.control->comparison.effect->theta;
      rows.push_back(
          {"A/A control",
           cell.cell.name,
           cell.control->alarm ? "ALARM; 95 % interval" : "95 % interval",
           theta.at_95 ? effect_text(theta) + " " + interval_text(theta.at_95) : at_95_text(theta),
           theta.value,
           theta.at_95,
           std::nullopt,
           std::nullopt,
           true});
    }
  }
  return rows;
}

// The launches of a comparison on one axis, for a page too narrow for their pairs.
std::vector<ForestRow> launch_rows(const CellReport& cell, const Comparison& comparison) {
  const Effect& effect = comparison.effect ? *comparison.effect : *comparison.effect_all;
  std::vector<ForestRow> rows;
  for (const LaunchPairs& launch : comparison.pairs.launches)
    for (const LaunchEffect& one : effect.launches)
      if (one.launch == launch.launch)
        rows.push_back({fmt::format("launch {}", launch.index),
                        cell.cell.name,
                        fmt::format("{} pairs", one.pairs),
                        change_text(std::expm1(one.theta)),
                        one.theta,
                        one.interval,
                        band_of(cell),
                        std::nullopt,
                        false});
  return rows;
}

std::string verdict_html(const Verdict& verdict) {
  return fmt::format("<span class=\"verdict {}\">{}</span>",
                     to_string(headline(verdict).tone),
                     h(verdict_word(verdict)));
}

std::string tags_html(const Verdict& verdict) {
  std::string out;
  for (const Tag tag : verdict.tags)
    out += fmt::format(" <span class=\"tag\">{}</span>", to_string(tag));
  return out;
}

std::string comparison_card(const Report& report, std::size_t i, std::size_t j) {
  const CellReport& cell = report.cells[i];
  const Comparison& comparison = cell.comparisons[j];
  std::string out =
      fmt::format("<section class=\"card\"><header><h3>{}: {}</h3>{}{}</header>\n<p>{}</p>\n",
                  h(cell.cell.name),
                  h(comparison_text(comparison)),
                  verdict_html(comparison.verdict),
                  tags_html(comparison.verdict),
                  h(headline(comparison.verdict).text));
  std::string records;
  for (const Section& section : comparison_sections(report, i, j))
    if (section.depth == Depth::Record)
      records += section_html(section);
    else
      out += section_body_html(section);
  if (comparison.effect_all)
    out +=
        two_shapes(pairs_svg(comparison, band_of(cell)) +
                       "<p class=\"muted\">Change of time of each pair, by launch. Line: median "
                       "of the launch; shade: its exact 95 % interval; grey: 95 % interval of "
                       "the A/A control; crosses: excluded pairs; triangles: beyond the axis.</p>",
                   forest_svg(launch_rows(cell, comparison), PlotShape::Narrow) +
                       "<p class=\"muted\">Median change of time of each launch with its exact "
                       "95 % interval; grey: 95 % interval of the A/A control.</p>");
  return out + explanation_html(comparison) + records + "</section>\n";
}

// Of all variants together: one seed's batches are the same for each of them.
std::string loss_card(const CellReport& cell) {
  if (cell.loss_curves.empty()) return "";
  return fmt::format(
      "<section class=\"card\"><header><h3>{}: training loss</h3></header>\n<p class=\"muted\">{} "
      "of "
      "{} seeds, {} optimizer steps each{}; all variants train on the same {}. Thin: one "
      "seed; "
      "thick: their mean. Below: the difference from {} at equal seeds; shaded: the margin of "
      "{:.4g} and the steps that are judged.</p>\n{}</section>\n",
      h(cell.cell.name),
      cell.loss_launches,
      cell.cell.loss_seeds,
      loss_training_steps(cell.cell),
      by_token(cell.cell) ? " of the baseline, and as many tokens of the others" : "",
      by_token(cell.cell) ? "text" : "batches",
      h(cell.comparisons.empty() ? "the baseline" : cell.comparisons.front().a),
      cell.cell.loss_margin,
      two_shapes(loss_svg(cell, PlotShape::Wide), loss_svg(cell, PlotShape::Narrow)));
}

std::string comparisons(const Report& report) {
  std::string out = "<h2>Comparisons</h2>\n";
  std::vector<ComparisonIndex> all;
  for (std::size_t i = 0; i < report.cells.size(); ++i)
    for (std::size_t j = 0; j < report.cells[i].comparisons.size(); ++j) all.emplace_back(i, j);
  for (const std::string& note : no_breakdown_notes(report, all))
    out += "<p class=\"muted\">" + h(note) + "</p>\n";
  for (std::size_t i = 0; i < report.cells.size(); ++i) {
    if (std::ranges::all_of(report.cells[i].comparisons, is_untouched)) continue;
    out += fmt::format("<p class=\"muted intro\">{} ({}, {}): {}. {}</p>\n",
                       h(report.cells[i].cell.name),
                       h(unit_text(report.cells[i].cell)),
                       launches_text(report.cells[i]),
                       h(report.cells[i].summary),
                       h(control_text(report.cells[i])));
    for (std::size_t j = 0; j < report.cells[i].comparisons.size(); ++j)
      if (!is_untouched(report.cells[i].comparisons[j])) out += comparison_card(report, i, j);
    for (const Section& section : cell_sections(report, i)) out += section_html(section);
    out += loss_card(report.cells[i]);
  }
  return out;
}

std::string effects(const Report& report) {
  const auto rows = forest_rows(report);
  if (rows.empty()) return "";
  return "<h2>Effects on time</h2>\n<div class=\"forest\">" +
         two_shapes(forest_svg(rows, PlotShape::Wide), forest_svg(rows, PlotShape::Narrow)) +
         "</div><p class=\"muted\"><span class=\"key point\"></span>effect with " +
         interval_level_text(report) +
         " interval over launches<span class=\"key claimed\"></span>claimed range<span class=\"key "
         "band\"></span>95 % interval of the A/A control</p>\n";
}

// What the colours of verdicts mean, each of which has its word too, and where words are explained.
// Not at the end, where a printer would give the line a page of its own.
std::string tone_legend() {
  return "<p class=\"muted\">Colours of verdicts: <span class=\"good\">green</span>: faster with "
         "training unharmed, or a claim confirmed; <span class=\"mixed\">amber</span>: a gain that "
         "misses its claim, or a claim kept at a cost; <span class=\"neutral\">grey</span>: not "
         "decided, or quality unproven; <span class=\"bad\">red</span>: slower, harmed, rejected, "
         "or "
         "a claim refuted. " +
         h(kWordsLine) + "</p>\n";
}

} // namespace

std::string render_html(const Report& report) {
  const std::string title =
      report.spec.name.empty() ? "Assay report" : "Assay report: " + report.spec.name;
  std::string out = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                    "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
                    "<title>" +
                    h(title) + "</title><style>" + kHtmlStyle + "</style></head><body><main>\n";
  out += fmt::format("<h1>{}</h1><p class=\"lead\">{}.</p>\n", h(title), h(summary_text(report)));
  if (!report.complete())
    out +=
        fmt::format("<p class=\"lead\"><b>The plan is not complete</b>: launches are missing in {} "
                    "of {} cells, listed below.</p>\n",
                    std::count_if(report.cells.begin(),
                                  report.cells.end(),
                                  [](const CellReport& cell) { return !cell.missing.empty(); }),
                    report.cells.size());
  out += section_body_html(findings_section(report)) + section_body_html(run_section(report));
  const std::vector<Section> sections = report_sections(report);
  out += section_body_html(sections.front()) + tone_legend() +
         section_html(further_findings_section(report)) + effects(report);
  std::string records;
  for (std::size_t i = 1; i < sections.size(); ++i)
    (sections[i].depth == Depth::Record ? records : out) += section_html(sections[i]);
  out += comparisons(report) + "<section class=\"records\"><h2>Records</h2>\n" + records;
  out += "<details><summary>matrix</summary><pre>" + h(report.spec.matrix_toml) +
         "</pre></details>\n</section>\n";
  return out + "</main></body></html>\n";
}

} // namespace assay
