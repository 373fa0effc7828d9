#include "core/files/markdown_text.h"
#include "core/text.h"
#include "experiments/analysis/report_lines.h"
#include "experiments/analysis/wording.h"
#include "experiments/report/markdown_table.h"
#include "experiments/report/render.h"
#include "experiments/report/section.h"

namespace assay {

namespace {

std::string md(const std::string& text) {
  return markdown_cell(text);
}

std::string items(const Section& section) {
  std::string out;
  for (const SectionRow& row : section.rows) {
    std::string text;
    for (const std::string& part : row.texts) text += (text.empty() ? "" : ": ") + md(part);
    out += "- " + text + "\n";
  }
  return out;
}

// A table with titles, else a list; then the notes.
std::string body(const Section& section) {
  std::string out;
  if (!section.rows.empty()) out = section.has_titles() ? markdown_table(section) : items(section);
  for (const std::string& note : section.notes) out += (out.empty() ? "" : "\n") + md(note) + "\n";
  return out;
}

std::string comparison(const Report& report, std::size_t cell, std::size_t index) {
  const CellReport& of = report.cells[cell];
  const Comparison& shown = of.comparisons[index];
  std::string out = fmt::format("\n### {}: {}\n\n**{}**: {}\n\n",
                                md(of.cell.name),
                                md(comparison_text(shown)),
                                md(verdict_word(shown.verdict)),
                                md(headline(shown.verdict).text));
  for (const Section& section : comparison_sections(report, cell, index))
    if (section.depth != Depth::Record) out += body(section);
  return out;
}

} // namespace

std::string render_markdown(const Report& report) {
  std::string out = fmt::format("# Assay report: {}\n\n{}.\n\n{}",
                                md(report.spec.name),
                                summary_text(report),
                                items(run_section(report)));
  for (const Section& section : report_sections(report))
    if (section.depth != Depth::Record)
      out += fmt::format("\n## {}\n\n{}", section.title, body(section));
  out += "\n## Comparisons\n";
  for (std::size_t cell = 0; cell < report.cells.size(); ++cell)
    for (std::size_t i = 0; i < report.cells[cell].comparisons.size(); ++i)
      if (!is_untouched(report.cells[cell].comparisons[i])) out += comparison(report, cell, i);
  return out + "\n" + kWordsLine + "\n";
}

} // namespace assay
