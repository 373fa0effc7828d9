#include <algorithm>
#include <array>

#include "core/text.h"
#include "experiments/analysis/wording.h"
#include "experiments/report/explain_wording.h"
#include "experiments/report/render.h"
#include "experiments/report/text_layout.h"

namespace assay {

namespace {

constexpr std::size_t kColumns = 6;
using Row = std::array<std::string, kColumns>;
constexpr int kIndent = 4;

constexpr std::array<bool, kColumns> kRightAligned{false, true, true, true, true, false};

Row comparison_row(const Comparison& comparison) {
  const bool measured = comparison.effect.has_value();
  return {printable(comparison.b) + " vs " + printable(comparison.a),
          measured ? effect_text(comparison.effect->theta) : "-",
          measured ? interval_text(comparison.effect->theta.at_95) : "-",
          mde_text(comparison.effect),
          comparison.memory ? effect_text(comparison.memory->log_ratio) : "-",
          verdict_word(comparison.verdict)};
}

std::array<std::size_t, kColumns> column_widths(const Report& report, const Row& header) {
  std::array<std::size_t, kColumns> widths{};
  const auto grow = [&](const Row& row) {
    for (std::size_t i = 0; i < kColumns; ++i)
      widths[i] = std::max(widths[i], display_width(row[i]));
  };
  grow(header);
  for (const CellReport& cell : report.cells)
    for (const Comparison& comparison : cell.comparisons) grow(comparison_row(comparison));
  return widths;
}

std::size_t total_width(const std::array<std::size_t, kColumns>& widths) {
  std::size_t total = 2;
  for (const std::size_t width : widths) total += width + 2;
  return total - 2;
}

// One line of columns; where the terminal is too narrow, the names stand on a line of their own.
void print_row(TextWriter& out,
               const Row& row,
               std::array<std::size_t, kColumns> widths,
               Tone tone,
               bool header) {
  std::string text = "  ";
  std::size_t first = 0;
  if (total_width(widths) > out.width()) {
    out.line(row[0], 2);
    text = "    ";
    first = 1;
  }
  for (std::size_t i = first; i < kColumns; ++i) {
    const bool last = i + 1 == kColumns;
    const std::string cell = out.plain(row[i]);
    if (last)
      text += header ? cell : out.colored(cell, tone);
    else
      text += padded(cell, widths[i], kRightAligned[i]) + "  ";
  }
  out.raw(text);
}

void print_claim(TextWriter& out, const ClaimResult& claim) {
  std::string text = fmt::format("claim {}: {}; {}; {}",
                                 claim.claim.id,
                                 claimed_text(claim.claim),
                                 measured_text(claim),
                                 claim_state_text(claim));
  if (!claim.reason.empty()) text += ": " + claim.reason;
  out.line(text, kIndent);
}

void print_comparison(TextWriter& out,
                      const Report& report,
                      std::size_t cell,
                      std::size_t index,
                      const std::array<std::size_t, kColumns>& widths) {
  const Comparison& comparison = report.cells[cell].comparisons[index];
  const Headline head = headline(comparison.verdict);
  print_row(out, comparison_row(comparison), widths, head.tone, false);
  std::string text = head.text;
  for (const std::string& reason : comparison.verdict.reasons) text += "; " + reason;
  if (comparison.effect) text += fmt::format(" (unit {})", unit_time_text(*comparison.effect));
  out.line(text, kIndent);
  if (comparison.device)
    out.line(fmt::format("by CUDA events {} {}",
                         effect_text(*comparison.device),
                         interval_text(comparison.device->at_95)),
             kIndent);
  if (comparison.end_to_end)
    out.line(fmt::format("end to end {} {}: one {} per {:.0f} step{} of {}",
                         effect_text(comparison.end_to_end->log_ratio),
                         interval_text(comparison.end_to_end->log_ratio.at_95),
                         report.cells[cell].cell.unit,
                         comparison.end_to_end->every,
                         comparison.end_to_end->every == 1 ? "" : "s",
                         human_seconds(comparison.end_to_end->step_ns * 1e-9)),
             kIndent);
  if (const std::string loss = loss_note(comparison); !loss.empty()) out.line(loss, kIndent);
  if (comparison.explanation) out.line(where_text(*comparison.explanation), kIndent);
  if (const std::string ranks = ranks_text(comparison); !ranks.empty()) out.line(ranks, kIndent);
  for (const ClaimResult* claim : claims_of(report, cell, index)) print_claim(out, *claim);
}

bool is_explained(const Report& report) {
  for (const CellReport& cell : report.cells)
    for (const Comparison& comparison : cell.comparisons)
      if (comparison.explanation) return true;
  return false;
}

void print_untested(TextWriter& out, const Report& report) {
  bool first = true;
  for (const ClaimResult& claim : report.claims) {
    if (claim.cell) continue;
    if (first) out.line("claims without a comparison");
    first = false;
    print_claim(out, claim);
  }
}

void print_list(TextWriter& out, const char* title, const std::vector<std::string>& items) {
  if (items.empty()) return;
  out.raw("");
  out.line(title);
  for (const std::string& item : items) out.line(item, 2, "- ");
}

std::vector<std::string> speed_lines(const Report& report) {
  std::vector<std::string> lines;
  for (const CellReport& cell : report.cells)
    for (const VariantSpeed& speed : cell.speed)
      lines.push_back(speed_name_text(cell, speed) + ": " + speed_text(speed));
  for (const std::string& note : speed_notes(report)) lines.push_back(note);
  return lines;
}

std::string cell_line(const CellReport& cell) {
  return fmt::format(
      "{} ({}; {}; {})", cell.cell.name, cell.cell.unit, launches_text(cell), control_text(cell));
}

} // namespace

std::string render_table(const Report& report, const TableStyle& style) {
  TextWriter out(style);
  out.line(fmt::format("{}: {}",
                       report.spec.name.empty() ? "unnamed plan" : report.spec.name,
                       summary_text(report)));
  if (report.cells.empty()) out.line("the plan has no cells");
  const Row header{"", "time", "95 % interval", "MDE", "memory", "verdict"};
  const auto widths = column_widths(report, header);
  for (std::size_t cell = 0; cell < report.cells.size(); ++cell) {
    out.raw("");
    out.line(cell_line(report.cells[cell]));
    print_row(out, header, widths, Tone::Neutral, true);
    out.rule(total_width(widths));
    for (std::size_t i = 0; i < report.cells[cell].comparisons.size(); ++i)
      print_comparison(out, report, cell, i, widths);
  }
  out.raw("");
  print_untested(out, report);
  out.line(fmt::format(
      "time: change of a unit's wall time, paired; unit: A's median, and B's by that change. MDE: "
      "smallest effect seen with {:.0f} % "
      "probability. Verdicts read the {:.4g} % interval (alpha shared by {} verdict{}).",
      100 * report.spec.power,
      100 * (1 - report.judged_alpha),
      report.judgements,
      report.judgements == 1 ? "" : "s"));
  if (is_explained(report))
    out.line("where: difference of the traced steps by stage (share of the whole difference; not "
             "clear of 0: its interval holds 0). Closes: the stages add up to the step.");
  print_list(out, "speed of light", speed_lines(report));
  print_list(out, "alarms", report.alarms);
  print_list(out, "shape warnings", report.shape_warnings);
  if (const std::string line = source_errors_line(report.source_errors.size()); !line.empty())
    out.line(line);
  print_list(out, "missing", report.missing);
  return out.take();
}

} // namespace assay
