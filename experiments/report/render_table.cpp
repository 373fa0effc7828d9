#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "core/files/shell_text.h"
#include "core/text.h"
#include "experiments/analysis/report_lines.h"
#include "experiments/analysis/wording.h"
#include "experiments/report/render.h"
#include "experiments/report/section.h"
#include "experiments/report/text_sections.h"

namespace assay {

namespace {

// Merged results have the command of every part: the first on one line, and how many more there
// are.
void fold_commands(Section& section, const std::string& command, std::size_t width) {
  const std::vector<std::string> commands = shell_commands(command);
  if (commands.size() < 2) return;
  const auto row = std::find_if(section.rows.begin(), section.rows.end(), [&](const auto& known) {
    return known.texts.back() == command;
  });
  if (row == section.rows.end()) return;
  row->texts.back() = cut_to(commands.front(), width);
  section.rows.insert(
      row + 1,
      {{"", fmt::format("and {} more (report.json names them)", commands.size() - 1)}, ""});
}

class TableReport {
public:
  TableReport(const Report& report, const TableStyle& style, const TableView& view)
      : report_(report), view_(view), out_(style) {}

  std::string render() {
    print_head();
    const std::vector<Section> sections = report_sections(report_);
    out_.raw("");
    print_section(out_, sections.front(), 0);
    print_comparisons();
    for (std::size_t i = 1; i < sections.size(); ++i)
      if (is_shown(sections[i].depth)) print_titled(sections[i]);
    out_.raw("");
    out_.line(kWordsLine);
    return out_.take();
  }

private:
  bool is_shown(Depth depth) const {
    if (view_.verbose || depth == Depth::Main) return true;
    return !view_.cell.empty() && depth == Depth::Detail;
  }

  void print_head() {
    out_.line(fmt::format("{}{}: {}",
                          report_.spec.name.empty() ? "unnamed plan" : report_.spec.name,
                          view_.cell.empty() ? "" : ", cell " + view_.cell,
                          summary_text(report_)));
    Section run = run_section(report_);
    constexpr std::size_t kLabels = 15; // columns of the label and the indent
    if (!view_.verbose)
      fold_commands(run, report_.spec.command, std::max(out_.width(), 2 * kLabels) - kLabels);
    print_section(out_, run);
  }

  void print_titled(const Section& section, std::size_t indent = 0) {
    if (section.empty()) return;
    out_.raw("");
    out_.line(section.title, indent);
    print_section(out_, section, indent + 2);
  }

  // What is decided or wrong; the rest in one line.
  void print_comparisons() {
    std::vector<std::string> undecided;
    std::set<std::string> undecided_cells;
    for (std::size_t cell = 0; cell < report_.cells.size(); ++cell) {
      const std::string& name = report_.cells[cell].cell.name;
      const auto& comparisons = report_.cells[cell].comparisons;
      for (std::size_t i = 0; i < comparisons.size(); ++i)
        if (is_unmeasured(comparisons[i]) && !view_.verbose && view_.cell.empty())
          continue; // its row in the table says all
        else if (view_.verbose || !view_.cell.empty() || shows_details(comparisons[i]))
          print_comparison(cell, i);
        else
          undecided.push_back(name + ", " + comparison_text(comparisons[i])),
              undecided_cells.insert(name);
      for (const Section& section : cell_sections(report_, cell))
        if (is_shown(section.depth)) print_titled(section);
    }
    if (undecided.empty()) return;
    out_.raw("");
    out_.line(
        fmt::format("Undecided: {}. `assay report {} --cell {}` shows why.",
                    fmt::join(undecided, "; "),
                    view_.directory,
                    undecided_cells.size() == 1 ? shell_word(*undecided_cells.begin()) : "NAME"));
  }

  void print_comparison(std::size_t cell, std::size_t index) {
    const CellReport& of = report_.cells[cell];
    const Comparison& comparison = of.comparisons[index];
    out_.raw("");
    out_.line(fmt::format("{}: {}: {}",
                          of.cell.name,
                          comparison_text(comparison),
                          headline(comparison.verdict).text));
    for (const Section& section : comparison_sections(report_, cell, index))
      if (section.depth == Depth::Main)
        print_section(out_, section);
      else if (is_shown(section.depth))
        print_titled(section, 2);
  }

  const Report& report_;
  TableView view_;
  TextWriter out_;
};

} // namespace

std::string render_table(const Report& report, const TableStyle& style, const TableView& view) {
  if (view.cell.empty()) return TableReport(report, style, view).render();
  return TableReport(report_of_cell(report, view.cell), style, view).render();
}

} // namespace assay
