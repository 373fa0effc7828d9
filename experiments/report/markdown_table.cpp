#include "experiments/report/markdown_table.h"

#include <vector>

#include "core/files/markdown_text.h"

namespace assay {

namespace {

std::string cells(const std::vector<std::string>& texts) {
  std::string out = "|";
  for (const std::string& text : texts) out += " " + text + " |";
  return out + "\n";
}

} // namespace

std::string markdown_table(const Section& section) {
  std::vector<std::string> titles, rules;
  for (const SectionColumn& column : section.columns) {
    titles.push_back(markdown_cell(column.title));
    rules.push_back(column.number ? "---:" : "---");
  }
  std::string out = cells(titles) + cells(rules);
  for (const SectionRow& row : section.rows) {
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < row.texts.size(); ++i) {
      const std::string text = markdown_cell(row.texts[i]);
      texts.push_back(section.columns[i].toned && !text.empty() ? "**" + text + "**" : text);
    }
    out += cells(texts);
  }
  return out;
}

} // namespace assay
