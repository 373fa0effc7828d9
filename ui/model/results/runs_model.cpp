#include "ui/model/results/runs_model.h"

#include "core/text.h"
#include "experiments/analysis/wording.h"
#include "ui/model/results/results.h"

namespace assay {
namespace {

LaunchMark mark_of(const LaunchSummary& launch, std::size_t index) {
  LaunchMark mark{index, launch_text(launch.row), launch.state(), "", Tone::Neutral};
  if (launch.replaced || launch.set_aside) {
    mark.glyph = "–";
    return mark;
  }
  switch (launch.row.state) {
  case LaunchState::Complete:
    mark.glyph = "●";
    mark.tone = Tone::Good;
    break;
  case LaunchState::Partial:
    mark.glyph = "◐";
    mark.tone = Tone::Mixed;
    break;
  case LaunchState::Failed:
    mark.glyph = "✕";
    mark.tone = launch.interrupted ? Tone::Neutral : Tone::Bad;
    break;
  case LaunchState::Running:
    mark.glyph = "○";
    break;
  }
  return mark;
}

} // namespace

std::vector<LaunchGridRow> launch_grid(const Results& results) {
  std::vector<LaunchGridRow> rows;
  for (const CellReport& cell : results.report.cells) {
    LaunchGridRow row;
    row.cell = printable(cell.cell.name);
    for (std::size_t i = 0; i < results.report.launches.size(); ++i)
      if (results.report.launches[i].row.cell == cell.cell.id)
        row.marks.push_back(mark_of(results.report.launches[i], i));
    row.owed = printable(fmt::format("{}", fmt::join(cell.missing, "; ")));
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<DetailLine> launch_card(const Results& results, std::size_t launch) {
  if (launch >= results.report.launches.size()) return {};
  const LaunchSummary& summary = results.report.launches[launch];
  const LaunchRow& row = summary.row;
  std::vector<DetailLine> lines;
  const auto add = [&](const char* label, const std::string& words, Tone tone = Tone::Neutral) {
    if (!words.empty()) lines.push_back({label, printable(words), tone});
  };
  add("launch",
      fmt::format("{} {} of {}, attempt {}",
                  to_string(row.kind),
                  row.index,
                  summary.cell,
                  row.attempt + 1));
  add("state", summary.state(), summary.state() == "failed" ? Tone::Bad : Tone::Neutral);
  add("reason", row.reason, summary.interrupted ? Tone::Neutral : Tone::Bad);
  if (row.kind == LaunchKind::Timed)
    add("rounds",
        fmt::format("{} of {}, after {} of warm-up{}",
                    summary.rounds,
                    row.rounds_planned,
                    summary.warmup_rounds,
                    row.steady ? "" : " that did not become steady"));
  add("from, to", row.started_utc + "  " + row.ended_utc);
  add("machine",
      fmt::format(
          "{}, {} cores, host {}", row.identity.cpu, row.identity.cores, row.identity.host));
  add("GPU", row.identity.gpu);
  add("driver", row.identity.driver);
  add("build", row.identity.build);
  add("built in order", row.build_order);
  add("to repeat", results.report.spec.command);
  return lines;
}

std::vector<Section> run_sections(const Report& report) {
  std::vector<Section> sections{
      findings_section(report), further_findings_section(report), run_section(report)};
  std::erase_if(sections, [](const Section& section) { return section.empty(); });
  for (Section& section : report_sections(report)) sections.push_back(std::move(section));
  return sections;
}

std::size_t find_section(const Results& results, std::string_view id) {
  std::size_t launches = 0;
  for (std::size_t i = 0; i < results.sections.size(); ++i)
    if (results.sections[i].id == id)
      return i;
    else if (results.sections[i].id == kLaunches)
      launches = i;
  return launches;
}

std::string section_name(const Section& section) {
  if (!section.has_items()) return section.title;
  return fmt::format("{} ({})", section.title, section.rows.size());
}

} // namespace assay
