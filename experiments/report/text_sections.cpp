#include "experiments/report/text_sections.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "core/text.h"

namespace assay {

namespace {

constexpr std::size_t kGap = 2; // between columns
// A wrapped column is at least this wide: no interval in a text is broken.
constexpr std::size_t kNarrowestText = 28, kNarrowestName = 16;

using Widths = std::vector<std::size_t>;

std::size_t total(const Widths& widths) {
  return std::accumulate(widths.begin(), widths.end(), std::size_t{0}) +
         kGap * (widths.empty() ? 0 : widths.size() - 1);
}

// Columns [first, last) of a section, as text that is ready to print.
class Grid {
public:
  Grid(const TextWriter& out, const Section& section, std::size_t first)
      : section_(section), first_(first) {
    if (section.has_titles()) add(out, nullptr);
    for (const SectionRow& row : section.rows) add(out, &row);
  }

  // Widths at which a row takes at most `room` columns, by wrapping its longest text if need be.
  std::optional<Widths> fit(std::size_t room) const {
    Widths widths(section_.columns.size() - first_);
    for (const auto& row : rows_)
      for (std::size_t i = 0; i < widths.size(); ++i)
        widths[i] = std::max(widths[i], display_width(row[i]));
    if (total(widths) <= room) return widths;
    const std::size_t excess = total(widths) - room;
    for (const bool names : {false, true})
      if (const auto column = longest(widths, names))
        if (widths[*column] >= excess + narrowest(*column, names)) {
          widths[*column] -= excess;
          return widths;
        }
    return std::nullopt;
  }

  void print_titles(TextWriter& out, const Widths& widths, std::size_t indent) const {
    if (!section_.has_titles()) return;
    print(out, 0, widths, indent, nullptr);
    const std::size_t rule = std::min(total(widths), out.width() - indent);
    out.rule(rule, indent);
  }

  void print_row(TextWriter& out, std::size_t row, const Widths& widths, std::size_t indent) const {
    print(out, row + (section_.has_titles() ? 1 : 0), widths, indent, &section_.rows[row]);
  }

private:
  void add(const TextWriter& out, const SectionRow* row) {
    std::vector<std::string> texts;
    for (std::size_t i = first_; i < section_.columns.size(); ++i)
      texts.push_back(out.plain(printable(row ? row->texts[i] : section_.columns[i].title)));
    rows_.push_back(std::move(texts));
  }

  // The widest column of texts among those that name a row, or among the others.
  std::optional<std::size_t> longest(const Widths& widths, bool names) const {
    std::optional<std::size_t> found;
    for (std::size_t i = 0; i < widths.size(); ++i)
      if ((first_ + i < section_.names) == names && !section_.columns[first_ + i].number &&
          (!found || widths[i] > widths[*found]))
        found = i;
    return found;
  }

  // Words are not broken.
  std::size_t narrowest(std::size_t column, bool names) const {
    std::size_t width = names ? kNarrowestName : kNarrowestText;
    for (const auto& row : rows_)
      for (std::size_t at = 0; at < row[column].size();) {
        const std::size_t end = std::min(row[column].find(' ', at), row[column].size());
        width = std::max(width, display_width(row[column].substr(at, end - at)));
        at = end + 1;
      }
    return width;
  }

  void print(TextWriter& out,
             std::size_t which,
             const Widths& widths,
             std::size_t indent,
             const SectionRow* row) const {
    std::vector<std::vector<std::string>> cells;
    std::size_t height = 1;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      cells.push_back(wrap_words(rows_[which][i], widths[i]));
      height = std::max(height, cells.back().size());
    }
    for (std::size_t line = 0; line < height; ++line) {
      std::string text(indent, ' ');
      std::size_t spaces = 0; // not written before something follows them
      for (std::size_t i = 0; i < widths.size(); ++i) {
        const SectionColumn& column = section_.columns[first_ + i];
        const std::string part = line < cells[i].size() ? cells[i][line] : "";
        const std::size_t pad = widths[i] - display_width(part);
        if (column.number) spaces += pad;
        if (!part.empty()) {
          text += std::string(spaces, ' ');
          text += row && column.toned ? out.colored(part, row->tone) : part;
          spaces = 0;
        }
        spaces += (column.number ? 0 : pad) + kGap;
      }
      out.raw(text);
    }
  }

  const Section& section_;
  std::size_t first_;
  std::vector<std::vector<std::string>> rows_; // titles first, where there are any
};

// "cell: comparison"
std::string names_of(const Section& section, const SectionRow& row) {
  std::string text;
  for (std::size_t i = 0; i < section.names; ++i)
    if (!row.texts[i].empty()) text += (text.empty() ? "" : ": ") + row.texts[i];
  return text;
}

void print_pairs(TextWriter& out,
                 const Section& section,
                 const SectionRow& row,
                 std::size_t indent) {
  std::string text;
  for (std::size_t i = section.names; i < section.columns.size(); ++i)
    if (!row.texts[i].empty())
      text +=
          fmt::format("{}{} {}", text.empty() ? "" : "; ", section.columns[i].title, row.texts[i]);
  out.line(text, indent);
}

void print_table(TextWriter& out, const Section& section, std::size_t indent) {
  const Grid whole(out, section, 0);
  if (const auto widths = whole.fit(out.width() - indent)) {
    whole.print_titles(out, *widths, indent);
    for (std::size_t i = 0; i < section.rows.size(); ++i) whole.print_row(out, i, *widths, indent);
    return;
  }
  const std::size_t deeper = indent + kGap;
  const Grid figures(out, section, section.names);
  const auto widths = figures.fit(out.width() - deeper);
  if (widths) figures.print_titles(out, *widths, deeper);
  for (std::size_t i = 0; i < section.rows.size(); ++i) {
    out.line(names_of(section, section.rows[i]), indent);
    if (widths)
      figures.print_row(out, i, *widths, deeper);
    else
      print_pairs(out, section, section.rows[i], deeper);
  }
}

} // namespace

void print_section(TextWriter& out, const Section& section, std::size_t indent) {
  if (section.columns.empty())
    for (const SectionRow& row : section.rows) out.line(row.texts.front(), indent, "- ");
  else if (!section.rows.empty())
    print_table(out, section, indent);
  for (const std::string& note : section.notes) out.line(note, indent);
}

} // namespace assay
