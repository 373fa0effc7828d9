#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/text.h"
#include "experiments/report/section.h"
#include "experiments/report/sections/list.h"

namespace assay {

using nlohmann::ordered_json;

bool Section::has_titles() const {
  return std::any_of(
      columns.begin(), columns.end(), [](const auto& column) { return !column.title.empty(); });
}

bool Section::has_items() const {
  return columns.empty() || has_titles();
}

std::vector<Section> report_sections(const Report& report) {
  std::vector<Section> sections;
  for (const auto& build : kReportSections)
    if (Section section = build(report); !section.empty()) sections.push_back(std::move(section));
  return sections;
}

std::vector<Section>
comparison_sections(const Report& report, std::size_t cell, std::size_t comparison) {
  std::vector<Section> sections;
  for (const auto& build : kComparisonSections)
    if (Section section = build({report, cell, comparison}); !section.empty())
      sections.push_back(std::move(section));
  return sections;
}

std::vector<Section> cell_sections(const Report& report, std::size_t cell) {
  std::vector<Section> sections;
  for (const auto& build : kCellSections)
    if (Section section = build(report, cell); !section.empty())
      sections.push_back(std::move(section));
  return sections;
}

Section rows_of_cell(Section section, const std::string& cell) {
  std::erase_if(section.rows, [&](const SectionRow& row) { return row.cell != cell; });
  if (section.columns.empty() || section.columns.front().title != "cell") return section;
  section.columns.erase(section.columns.begin());
  for (SectionRow& row : section.rows) row.texts.erase(row.texts.begin());
  section.names = std::max<std::size_t>(section.names, 2) - 1;
  return section;
}

void fold_unknown_columns(Section& section) {
  std::vector<std::string> folded;
  for (std::size_t i = section.columns.size(); i-- > section.names;) {
    const bool unknown =
        std::all_of(section.rows.begin(), section.rows.end(), [&](const SectionRow& row) {
          return row.texts[i] == kUnknownText || row.texts[i] == "-";
        });
    if (!unknown) continue;
    folded.insert(folded.begin(), section.columns[i].title);
    const auto at = static_cast<std::ptrdiff_t>(i);
    section.columns.erase(section.columns.begin() + at);
    for (SectionRow& row : section.rows) row.texts.erase(row.texts.begin() + at);
  }
  if (!folded.empty())
    section.notes.push_back(fmt::format("Not known in any row: {}.", fmt::join(folded, ", ")));
}

std::string_view to_string(Depth value) {
  constexpr std::string_view kNames[] = {"main", "detail", "record"};
  return kNames[static_cast<int>(value)];
}

ordered_json to_json(const Section& section) {
  const auto texts = [](const std::vector<std::string>& from) {
    ordered_json list = ordered_json::array();
    for (const std::string& text : from) list.push_back(printable(text));
    return list;
  };
  ordered_json columns = ordered_json::array(), rows = ordered_json::array();
  for (const SectionColumn& column : section.columns)
    columns.push_back({{"title", column.title}, {"number", column.number}});
  for (const SectionRow& row : section.rows)
    rows.push_back({{"texts", texts(row.texts)},
                    {"cell", printable(row.cell)},
                    {"tone", to_string(row.tone)}});
  return {{"id", section.id},
          {"title", section.title},
          {"depth", to_string(section.depth)},
          {"columns", columns},
          {"rows", rows},
          {"notes", texts(section.notes)}};
}

} // namespace assay
