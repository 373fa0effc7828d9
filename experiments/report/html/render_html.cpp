#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "experiments/analysis/wording.h"
#include "experiments/report/html/html_style.h"
#include "experiments/report/html/svg.h"
#include "experiments/report/render.h"
#include "experiments/report/render_explain.h"

namespace assay {

namespace {

std::string h(const std::string& text) {
  return escape_html(text);
}

std::optional<Interval> band_of(const CellReport& cell) {
  if (!cell.control || !cell.control->comparison.effect) return std::nullopt;
  return cell.control->comparison.effect->theta.at_95;
}

// The claimed range as a log ratio of time, for claims about what the row shows.
std::optional<Interval> claimed_range(const std::vector<const ClaimResult*>& claims,
                                      bool end_to_end) {
  for (const ClaimResult* claim : claims) {
    const auto metric = claim_metric(claim->claim.metric);
    if (!metric || !is_share_of_time(*metric) || claim->end_to_end != end_to_end ||
        claim->state == ClaimState::NotTested)
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
                      comparison.effect->theta.value,
                      comparison.effect->theta.at_95,
                      band_of(cell),
                      claimed_range(claims, false),
                      false});
      if (comparison.end_to_end && claimed_range(claims, true))
        rows.push_back({label,
                        cell.cell.name + ", end to end",
                        "share of training time",
                        comparison.end_to_end->log_ratio.value,
                        comparison.end_to_end->log_ratio.at_95,
                        std::nullopt,
                        claimed_range(claims, true),
                        false});
    }
    if (cell.control && cell.control->comparison.effect) {
      const Estimate& theta = cell.control->comparison.effect->theta;
      rows.push_back({"A/A control",
                      cell.cell.name,
                      cell.control->alarm ? "ALARM" : "reference against itself",
                      theta.value,
                      theta.at_95,
                      std::nullopt,
                      std::nullopt,
                      true});
    }
  }
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

std::string overview(const Report& report) {
  std::string out =
      "<div class=\"wide\"><table><thead><tr><th>cell</th><th>comparison</th><th "
      "class=\"num\">time</th>"
      "<th class=\"num\">95 % interval</th><th class=\"num\">MDE</th><th class=\"num\">memory</th>"
      "<th>verdict</th></tr></thead><tbody>\n";
  for (const CellReport& cell : report.cells)
    for (const Comparison& comparison : cell.comparisons) {
      const bool measured = comparison.effect.has_value();
      out +=
          fmt::format("<tr><td>{}</td><td>{}</td><td class=\"num\">{}</td><td class=\"num\">{}</td>"
                      "<td class=\"num\">{}</td><td class=\"num\">{}</td><td>{}<br><span "
                      "class=\"muted\">{}</span></td></tr>\n",
                      h(cell.cell.name),
                      h(comparison_text(comparison)),
                      measured ? effect_text(comparison.effect->theta) : "-",
                      measured ? interval_text(comparison.effect->theta.at_95) : "-",
                      mde_text(comparison.effect),
                      memory_text(comparison.memory),
                      verdict_html(comparison.verdict),
                      h(headline(comparison.verdict).text));
    }
  return out + "</tbody></table></div>\n";
}

std::string row(const std::string& name, const std::string& value) {
  return value.empty() ? "" : fmt::format("<dt>{}</dt><dd>{}</dd>", h(name), h(value));
}

std::string memory_row(const Comparison& comparison) {
  if (!comparison.memory) return row("peak memory", "not measured");
  return row("peak memory",
             fmt::format("{} -> {} ({}{}, {} launch{})",
                         human_bytes(comparison.memory->a_bytes),
                         human_bytes(comparison.memory->b_bytes),
                         memory_text(comparison.memory),
                         comparison.memory->exact ? ", repeats to the byte" : "",
                         comparison.memory->launches,
                         comparison.memory->launches == 1 ? "" : "es"));
}

std::string loss_row(const Comparison& comparison) {
  if (!comparison.loss) return "";
  const std::string text = loss_text(*comparison.loss);
  return comparison.evidence.quality_reason.ends_with(text) ? "" : row("loss", text);
}

std::string end_to_end_row(const CellReport& cell, const Comparison& comparison) {
  if (!comparison.end_to_end) return "";
  const EndToEnd& value = *comparison.end_to_end;
  return row("end to end",
             fmt::format("{} {} of training time: one {} per {:.0f} steps of {}",
                         effect_text(value.log_ratio),
                         interval_text(value.log_ratio.at_95),
                         cell.cell.unit,
                         value.every,
                         human_seconds(value.step_ns * 1e-9)));
}

std::string both(const Estimate& value) {
  return effect_text(value) + " " + interval_text(value.at_95);
}

std::string time_rows(const Report& report, const Comparison& comparison) {
  if (!comparison.effect) return row("time", "no timed launch counts yet");
  const Effect& effect = *comparison.effect;
  std::string out = row("unit", unit_time_text(effect) + ", median");
  out += row("time",
             both(effect.theta) + ", 95 % over " + std::to_string(effect.launches.size()) +
                 " launches");
  if (report.judgements > 1)
    out += row("judged interval",
               fmt::format("{} ({:.4g} %)",
                           interval_text(effect.theta.judged),
                           100 * (1 - report.judged_alpha)));
  out += row("by total time", both(effect.throughput));
  if (comparison.device) out += row("by CUDA events", both(*comparison.device));
  out += row("smallest detectable", mde_text(comparison.effect));
  if (comparison.pairs.excluded > 0) {
    out += row("pairs",
               fmt::format("{} of {} excluded (disturbed: {} visits of A, {} of B)",
                           comparison.pairs.excluded,
                           comparison.pairs.pairs,
                           comparison.pairs.disturbed_a,
                           comparison.pairs.disturbed_b));
    out += row("with every pair", both(comparison.effect_all->theta));
  } else {
    out += row("pairs", fmt::format("{}, none excluded", comparison.pairs.pairs));
  }
  if (comparison.position)
    out += row("second visit of a round", both(*comparison.position) + " against the first");
  return out;
}

std::string gates_table(const Comparison& comparison) {
  if (comparison.evidence.gates.empty()) return "";
  std::string out =
      fmt::format("<details><summary>parity gates ({})</summary><div "
                  "class=\"wide\"><table><tr><th>gate</th><th>variant</th><th>result</th><th "
                  "class=\"num\">difference</th><th class=\"num\">allowed</th><th>detail</th></tr>",
                  comparison.evidence.gates.size());
  for (const GateRow& gate : comparison.evidence.gates)
    out += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"num\">{:.4g}</td><td "
                       "class=\"num\">{:.4g}</td><td>{}</td></tr>",
                       h(gate.name),
                       h(gate.variant == comparison.a_id   ? comparison.a
                         : gate.variant == comparison.b_id ? comparison.b
                                                           : "launch"),
                       gate.passed ? "passed" : "FAILED",
                       gate.value,
                       gate.bound,
                       h(gate.detail));
  return out + "</table></div></details>\n";
}

std::string excluded_list(const Comparison& comparison) {
  if (comparison.pairs.excluded == 0) return "";
  std::string out =
      fmt::format("<details><summary>excluded pairs ({})</summary><ul>", comparison.pairs.excluded);
  for (const LaunchPairs& launch : comparison.pairs.launches)
    for (const Pair& pair : launch.pairs)
      if (!pair.excluded.empty())
        out += fmt::format(
            "<li>launch {} round {}: {}</li>", launch.index, pair.round, h(pair.excluded));
  return out + "</ul></details>\n";
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
  if (!comparison.verdict.reasons.empty()) {
    out += "<ul>";
    for (const std::string& reason : comparison.verdict.reasons)
      out += "<li>" + h(reason) + "</li>";
    out += "</ul>\n";
  }
  out += "<dl>" + time_rows(report, comparison) + end_to_end_row(cell, comparison) +
         memory_row(comparison);
  out +=
      row("quality",
          fmt::format(
              "{}: {}", to_string(comparison.verdict.quality), comparison.evidence.quality_reason));
  out += loss_row(comparison) + row("engaged", comparison.evidence.engaged) + "</dl>\n";
  if (comparison.effect_all) {
    out += pairs_svg(comparison, band_of(cell));
    out += "<p class=\"muted\">Change of time of each pair, by launch. Line: the launch's median; "
           "shade: its exact 95 % interval; grey: 95 % interval of the A/A control; crosses: "
           "excluded; triangles: beyond the axis.</p>\n";
  }
  return out + explanation_html(comparison) + gates_table(comparison) + excluded_list(comparison) +
         "</section>\n";
}

// Of all variants together: one seed's batches are the same for each of them.
std::string loss_card(const CellReport& cell) {
  if (cell.loss_curves.empty()) return "";
  return fmt::format(
      "<section class=\"card\"><header><h3>{}: training loss</h3></header>\n<p class=\"muted\">{} "
      "of "
      "{} seeds, {} optimizer steps each; every variant trains on the same batches. Thin: one "
      "seed; "
      "thick: their mean. Below: the difference from {} at equal seeds; shaded: the margin of "
      "{:.4g}, and the steps that are judged.</p>\n{}</section>\n",
      h(cell.cell.name),
      cell.loss_launches,
      cell.cell.loss_seeds,
      cell.cell.loss_rounds * cell.cell.loss_steps,
      h(cell.comparisons.empty() ? "the reference" : cell.comparisons.front().a),
      cell.cell.loss_margin,
      loss_svg(cell));
}

// A claim stands once, beside all that was measured of it.
std::string claims_section(const Report& report) {
  if (report.claims.empty()) return "";
  std::string out = "<h2>Claims</h2><div "
                    "class=\"wide\"><table><thead><tr><th>claim</th><th>claimed</th><th>measured</"
                    "th><th>state</th></tr></thead><tbody>\n";
  for (auto claim = report.claims.begin(); claim != report.claims.end();) {
    const auto end = std::find_if(claim, report.claims.end(), [&](const ClaimResult& other) {
      return other.claim.id != claim->claim.id;
    });
    out += fmt::format("<tr><td rowspan=\"{0}\">{1}<br><span class=\"muted\">“{2}”<br>{3}</span>"
                       "</td><td rowspan=\"{0}\">{4}<br><span class=\"muted\">{5}</span></td>",
                       end - claim,
                       h(claim->claim.id),
                       h(claim->claim.text),
                       h(claim->claim.source),
                       h(claimed_text(claim->claim)),
                       h(claim->claim.conditions));
    for (const char* row = ""; claim != end; ++claim, row = "<tr>")
      out += fmt::format(
          "{}<td class=\"whole\">{}{}</td><td><span class=\"verdict\">{}</span><br><span "
          "class=\"muted\">{}</span></td></tr>\n",
          row,
          h(measured_text(*claim)),
          claim->cell ? "<br><span class=\"muted\">in " + h(report.cells[*claim->cell].cell.name) +
                            "</span>"
                      : "",
          h(claim_state_text(*claim)),
          h(claim->reason));
  }
  return out + "</tbody></table></div>\n";
}

std::string speed_section(const Report& report) {
  std::string rows;
  for (const CellReport& cell : report.cells)
    for (const VariantSpeed& speed : cell.speed)
      rows += fmt::format(
          "<tr><td>{}</td><td class=\"num\">{}</td><td class=\"num\">{}</td><td "
          "class=\"num\">{}</td><td class=\"num\">{}</td><td class=\"num\">{}</td><td>{}<br><span "
          "class=\"muted\">{}</span></td></tr>\n",
          h(speed_name_text(cell, speed)),
          token_rate_text(speed.tokens_per_second),
          utilization_text(speed),
          human_seconds(speed.step_seconds),
          light_text(speed),
          h(kernel_launches_text(speed)),
          bound_text(speed),
          h(speed.unknown));
  if (rows.empty()) return "";
  return "<h2>Speed of light</h2><div class=\"wide\"><table><thead><tr><th>cell</th><th "
         "class=\"num\">speed</th><th class=\"num\">MFU</th><th class=\"num\">step</th><th "
         "class=\"num\">at measured peaks</th><th class=\"num\">launches</th><th>binds</th></tr>"
         "</thead><tbody>\n" +
         rows + "</tbody></table></div>\n";
}

std::string
list_section(const char* title, const std::vector<std::string>& items, const char* none) {
  std::string out = fmt::format("<h2>{}</h2>", title);
  if (items.empty()) return *none == '\0' ? "" : out + "<p class=\"muted\">" + none + "</p>\n";
  out += "<ul>";
  for (const std::string& item : items) out += "<li>" + h(item) + "</li>";
  return out + "</ul>\n";
}

std::string identity_words(const Identity& id) {
  return fmt::format("{} · {} · {} cores, {} threads · {} · LibTorch {} · CUDA {} · driver {} · "
                     "kernel {} · build {}",
                     id.host,
                     id.cpu,
                     id.cores,
                     id.threads,
                     id.gpu.empty() ? "no GPU" : id.gpu + " " + id.gpu_uuid,
                     id.libtorch,
                     id.cuda.empty() ? "-" : id.cuda,
                     id.driver.empty() ? "-" : id.driver,
                     id.kernel,
                     id.build);
}

// "A=1\nB=2\n" as "A=1 · B=2".
std::string one_line(const std::string& lines) {
  std::string out;
  for (const char c : lines) out += c == '\n' ? std::string(" · ") : std::string(1, c);
  return out.ends_with(" · ") ? out.substr(0, out.size() - std::string(" · ").size()) : out;
}

std::string machines(const Report& report) {
  std::vector<std::string> seen;
  std::string out;
  for (const LaunchSummary& launch : report.launches) {
    const Identity& id = launch.row.identity;
    const std::string words = identity_words(id) + id.boot + id.environment;
    if (id.host.empty() || std::find(seen.begin(), seen.end(), words) != seen.end()) continue;
    seen.push_back(words);
    out += row("machine", identity_words(id)) + row("boot", id.boot) +
           row("environment", one_line(id.environment));
  }
  return out;
}

std::string launches_table(const Report& report) {
  if (report.launches.empty()) return "<p class=\"muted\">No launch has started.</p>\n";
  std::string out =
      fmt::format("<details><summary>launches ({})</summary><div "
                  "class=\"wide\"><table><tr><th>cell</th><th>kind</th><th "
                  "class=\"num\">launch</th><th class=\"num\">attempt</th><th>state</th><th "
                  "class=\"num\">rounds</th><th>started (UTC)</th><th>build order</th></tr>",
                  report.launches.size());
  for (const LaunchSummary& launch : report.launches)
    out += fmt::format("<tr><td>{}</td><td>{}</td><td class=\"num\">{}</td><td "
                       "class=\"num\">{}</td><td>{}{}</td><td class=\"num\">{}</td>"
                       "<td>{}</td><td>{}</td></tr>",
                       h(launch.cell),
                       to_string(launch.row.kind),
                       launch.row.index,
                       launch.row.attempt + 1,
                       to_string(launch.row.state),
                       launch.row.reason.empty() ? "" : ": " + h(launch.row.reason),
                       launch.row.kind == LaunchKind::Timed
                           ? fmt::format("{} + {} warm-up", launch.rounds, launch.warmup_rounds)
                       : launch.row.kind == LaunchKind::Loss ? std::to_string(launch.rounds)
                                                             : "-",
                       h(launch.row.started_utc),
                       h(launch.row.build_order));
  return out + "</table></div></details>\n";
}

std::string events_list(const Report& report) {
  if (report.events.empty()) return "";
  std::string out =
      fmt::format("<details><summary>events ({})</summary><ul>", report.events.size());
  for (const EventRow& event : report.events)
    out += fmt::format("<li>{} launch {} round {}: {}: {}</li>",
                       h(event.utc),
                       event.launch,
                       event.round,
                       h(event.kind),
                       h(event.detail));
  return out + "</ul></details>\n";
}

std::string provenance(const Report& report) {
  std::string out = "<h2>Provenance</h2><dl>" + row("command", report.spec.command) +
                    row("planned", report.spec.created_utc);
  out += row("spec", report.spec.hash) + row("seed", std::to_string(report.spec.seed));
  out += row("rule",
             fmt::format("verdicts read the {:.4g} % interval (alpha {} / {} verdicts); effects "
                         "inside +-{} count as none; power {}",
                         100 * (1 - report.judged_alpha),
                         report.spec.alpha,
                         report.judgements,
                         share_text(report.spec.sesoi),
                         report.spec.power));
  out += machines(report) + "</dl>\n" + launches_table(report) + events_list(report);
  return out + "<details><summary>matrix</summary><pre>" + h(report.spec.matrix_toml) +
         "</pre></details>\n";
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
    out += fmt::format(
        "<p class=\"lead\"><b>The plan is not complete</b>: {} item{} missing, listed below.</p>\n",
        report.missing.size(),
        report.missing.size() == 1 ? " is" : "s are");
  out += overview(report);
  if (const auto rows = forest_rows(report); !rows.empty()) {
    out += "<h2>Effects on time</h2>\n<div class=\"wide\">" + forest_svg(rows) + "</div>";
    out += "<p class=\"muted\"><span class=\"key point\"></span>effect with 95 % interval over "
           "launches<span class=\"key claimed\"></span>claimed range<span class=\"key "
           "band\"></span>95 % interval of the A/A control</p>\n";
  }
  out += claims_section(report) + speed_section(report);
  out += list_section("Alarms", report.alarms, "None.") + list_section(kShapeWarnings, report.shape_warnings, "") +
         list_section(kSourceErrors, report.source_errors, "") +
         list_section("Missing", report.missing, "");
  out += "<h2>Comparisons</h2>\n";
  for (std::size_t i = 0; i < report.cells.size(); ++i) {
    out += fmt::format("<p class=\"muted\">{} ({}, {}): {}. {}</p>\n",
                       h(report.cells[i].cell.name),
                       h(report.cells[i].cell.unit),
                       launches_text(report.cells[i]),
                       h(report.cells[i].summary),
                       h(control_text(report.cells[i])));
    for (std::size_t j = 0; j < report.cells[i].comparisons.size(); ++j)
      out += comparison_card(report, i, j);
    out += loss_card(report.cells[i]);
  }
  return out + provenance(report) + "</main></body></html>\n";
}

} // namespace assay
