#include "experiments/report/html/html_section.h"

#include "core/text.h"

namespace assay {

namespace {

// In the row's tone where the column is toned.
std::string cell_text(const Section& section, const SectionRow& row, std::size_t column) {
  std::string text = html_prose(row.texts[column]);
  if (!section.columns[column].toned || text.empty()) return text;
  return fmt::format("<span class=\"verdict {}\">{}</span>", to_string(row.tone), text);
}

std::string classes(const SectionColumn& column, std::size_t index, const Section& section) {
  if (column.number) return " class=\"num\"";
  return index < section.names ? " class=\"name\"" : "";
}

std::string table_row(const Section& section, const SectionRow& row) {
  std::string out = "<tr>";
  for (std::size_t i = 0; i < row.texts.size(); ++i) {
    const SectionColumn& column = section.columns[i];
    // Where the page is narrow, rows are cards, and every cell carries its column's title.
    out += fmt::format("<td{} data-title=\"{}\">{}</td>",
                       classes(column, i, section),
                       html_text(column.title),
                       cell_text(section, row, i));
  }
  return out + "</tr>\n";
}

constexpr std::size_t kManyColumns = 8; // on a narrow screen their figures wrap

std::string table(const Section& section) {
  const bool many = section.columns.size() >= kManyColumns;
  std::string out =
      fmt::format("<div class=\"wide\"><table class=\"cards{}\"><thead><tr>", many ? " many" : "");
  for (std::size_t i = 0; i < section.columns.size(); ++i)
    out += fmt::format("<th{}>{}</th>",
                       classes(section.columns[i], i, section),
                       html_text(section.columns[i].title));
  out += "</tr></thead><tbody>\n";
  for (const SectionRow& row : section.rows) out += table_row(section, row);
  return out + "</tbody></table></div>\n";
}

std::string labels(const Section& section) {
  std::string out = "<dl>";
  for (const SectionRow& row : section.rows)
    out +=
        fmt::format("<dt>{}</dt><dd>{}</dd>", cell_text(section, row, 0), html_prose(row.texts[1]));
  return out + "</dl>\n";
}

std::string list(const Section& section) {
  std::string out = "<ul>";
  for (const SectionRow& row : section.rows)
    out += "<li>" + html_prose(row.texts.front()) + "</li>";
  return out + "</ul>\n";
}

} // namespace

std::string html_text(const std::string& text) {
  std::string out = escape_html(printable(text));
  constexpr std::string_view kArrow = "-&gt;";
  for (std::size_t at = 0; (at = out.find(kArrow, at)) != std::string::npos;)
    out.replace(at, kArrow.size(), "→");
  return out;
}

std::string html_prose(const std::string& text) {
  std::string out = html_text(text);
  for (std::size_t at = 0; (at = out.find('`', at)) != std::string::npos;) {
    const std::size_t end = out.find('`', at + 1);
    if (end == std::string::npos) break;
    out.replace(end, 1, "</code>");
    out.replace(at, 1, "<code>");
    at = end;
  }
  return out;
}

std::string section_body_html(const Section& section) {
  std::string out;
  if (!section.rows.empty())
    out = section.columns.empty() ? list(section)
          : section.has_titles()  ? table(section)
                                  : labels(section);
  for (const std::string& note : section.notes)
    out += "<p class=\"muted\">" + html_prose(note) + "</p>\n";
  return out;
}

std::string section_html(const Section& section, const char* heading) {
  if (section.empty()) return "";
  if (section.depth == Depth::Record)
    return fmt::format("<details><summary>{}{}</summary>\n{}</details>\n",
                       html_text(section.title),
                       section.has_items() ? fmt::format(" ({})", section.rows.size()) : "",
                       section_body_html(section));
  return fmt::format(
      "<{0}>{1}</{0}>\n{2}", heading, html_text(section.title), section_body_html(section));
}

std::string two_shapes(const std::string& wide, const std::string& narrow) {
  return "<div class=\"wide has-narrow\">" + wide + "</div><div class=\"narrow\">" + narrow +
         "</div>\n";
}

} // namespace assay
