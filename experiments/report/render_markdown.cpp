#include <algorithm>

#include "core/files/markdown_text.h"
#include "core/text.h"
#include "experiments/analysis/wording.h"
#include "experiments/report/explain_wording.h"
#include "experiments/report/render.h"

namespace assay {

namespace {

std::string md(const std::string& text) {
  return markdown_cell(text);
}

std::string reasons(const Comparison& comparison) {
  std::string text = headline(comparison.verdict).text;
  for (const std::string& reason : comparison.verdict.reasons) text += "; " + reason;
  if (const std::string loss = loss_note(comparison); !loss.empty()) text += "; " + loss;
  if (comparison.explanation) text += "; " + where_text(*comparison.explanation);
  if (const std::string ranks = ranks_text(comparison); !ranks.empty()) text += "; " + ranks;
  return text;
}

std::string comparison_row(const CellReport& cell, const Comparison& comparison) {
  const bool measured = comparison.effect.has_value();
  return fmt::format("| {} | {} | {} | {} | {} | {} | **{}** | {} |\n",
                     md(cell.cell.name),
                     md(comparison_text(comparison)),
                     measured ? effect_text(comparison.effect->theta) : "-",
                     md(measured ? interval_text(comparison.effect->theta.at_95) : "-"),
                     mde_text(comparison.effect),
                     md(memory_text(comparison.memory)),
                     md(verdict_word(comparison.verdict)),
                     md(reasons(comparison)));
}

std::string claim_row(const ClaimResult& claim, const Report& report) {
  return fmt::format("| {} | {} | {} | {} | **{}** | {} |\n",
                     md(claim.claim.id),
                     claim.cell ? md(report.cells[*claim.cell].cell.name) : "-",
                     md(claimed_text(claim.claim)),
                     md(measured_text(claim)),
                     md(claim_state_text(claim)),
                     md(claim.reason));
}

std::string list(const char* title, const std::vector<std::string>& items) {
  if (items.empty()) return "";
  std::string out = fmt::format("\n## {}\n\n", title);
  for (const std::string& item : items) out += "- " + md(item) + "\n";
  return out;
}

std::string speed_section(const Report& report) {
  std::string rows, notes;
  for (const CellReport& cell : report.cells)
    for (const VariantSpeed& speed : cell.speed)
      rows += fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n",
                          md(speed_name_text(cell, speed)),
                          token_rate_text(speed.tokens_per_second),
                          utilization_text(speed),
                          human_seconds(speed.step_seconds),
                          light_text(speed),
                          md(kernel_launches_text(speed)),
                          bound_text(speed));
  if (rows.empty()) return "";
  for (const std::string& note : speed_notes(report)) notes += "\n- " + md(note);
  return "\n## Speed of light\n\n"
         "| cell | speed | MFU | step | at measured peaks | launches | binds |\n"
         "|---|---:|---:|---:|---:|---:|---|\n" +
         rows + (notes.empty() ? "" : notes + "\n");
}

// Each distinct identity once: that is what a reader compares.
std::string machines(const Report& report) {
  std::vector<std::string> lines;
  for (const LaunchSummary& launch : report.launches) {
    const Identity& id = launch.row.identity;
    if (id.build.empty() && id.host.empty()) continue;
    std::string line = fmt::format(
        "host {}, {}, {} cores, {} threads, {}, LibTorch {}, driver {}, kernel {}, build {}",
        id.host,
        id.cpu,
        id.cores,
        id.threads,
        id.gpu.empty() ? "no GPU" : id.gpu + " " + id.gpu_uuid,
        id.libtorch,
        id.driver.empty() ? "none" : id.driver,
        id.kernel,
        id.build);
    if (std::find(lines.begin(), lines.end(), line) == lines.end())
      lines.push_back(std::move(line));
  }
  return list("Machine", lines);
}

} // namespace

std::string render_markdown(const Report& report) {
  std::string out =
      fmt::format("# Assay report: {}\n\n{}.\n", md(report.spec.name), summary_text(report));
  out += "\n| cell | comparison | time | 95 % interval | MDE | memory | verdict | why |\n"
         "|---|---|---:|---:|---:|---:|---|---|\n";
  for (const CellReport& cell : report.cells)
    for (const Comparison& comparison : cell.comparisons) out += comparison_row(cell, comparison);
  out += "\n## A/A control\n\n";
  for (const CellReport& cell : report.cells)
    out += fmt::format(
        "- {}: {}, {}\n", md(cell.cell.name), md(control_text(cell)), launches_text(cell));
  if (!report.claims.empty()) {
    out += "\n## Claims\n\n| claim | cell | claimed | measured | state | why "
           "|\n|---|---|---|---|---|---|\n";
    for (const ClaimResult& claim : report.claims) out += claim_row(claim, report);
  }
  out += speed_section(report);
  out += list("Alarms", report.alarms) + list(kShapeWarnings, report.shape_warnings) +
         list(kSourceErrors, report.source_errors) + list("Missing", report.missing) +
         machines(report);
  out += fmt::format("\nSeed {}, spec {}, `{}`. Verdicts read the {:.4g} % interval.\n",
                     report.spec.seed,
                     md(report.spec.hash),
                     md(report.spec.command),
                     100 * (1 - report.judged_alpha));
  return out;
}

} // namespace assay
