#include "ui/screens/section_table.h"

#include <algorithm>

#include "core/text.h"
#include "imgui.h"
#include "ui/model/results/results.h"
#include "ui/style/widgets.h"

namespace assay {
namespace {

Color color_of(const Section& section,
               const SectionRow& row,
               std::size_t column,
               const Palette& colors) {
  if (section.columns[column].toned && row.tone != Tone::Neutral) return colors.tone(row.tone);
  return column < section.names || row.texts[column] == "-" ? colors.muted : colors.text;
}

void draw_titles(const Section& section, const Palette& colors) {
  ImGui::TableNextRow();
  for (std::size_t column = 0; column < section.columns.size(); ++column) {
    ImGui::TableSetColumnIndex(static_cast<int>(column));
    text_wrapped(colors.accent, printable(section.columns[column].title));
  }
}

struct ColumnWidth {
  float word = 0, whole = 0; // of its longest word, of its longest text
};

void widen(ColumnWidth& width, const std::string& text) {
  width.whole = std::max(width.whole, ImGui::CalcTextSize(text.c_str()).x);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const float word = ImGui::CalcTextSize(text.data() + at, text.data() + end).x;
    width.word = std::max(width.word, word);
    at = end + 1;
  }
}

std::vector<ColumnWidth> column_widths(const Section& section) {
  std::vector<ColumnWidth> widths(section.columns.size());
  for (std::size_t column = 0; column < widths.size(); ++column) {
    widen(widths[column], printable(section.columns[column].title));
    for (const SectionRow& row : section.rows) widen(widths[column], printable(row.texts[column]));
  }
  return widths;
}

// Each column has room for its longest word and a few words of a sentence; where there is less, the
// widest columns give way. Long texts share the rest.
void set_up_table(std::vector<ColumnWidth> widths, float available) {
  const float em = ImGui::GetFontSize();
  const auto least = [&](const ColumnWidth& width, float cap) {
    return std::min(std::max(width.word, std::min(width.whole, 6 * em)), cap);
  };
  float cap = 10 * em, sum = 0, wholes = 0;
  for (;; cap -= em / 2) {
    sum = wholes = 0;
    for (const ColumnWidth& width : widths) sum += least(width, cap), wholes += width.whole;
    if (sum <= available || cap <= 3 * em) break;
  }
  for (ColumnWidth& width : widths) width.word = least(width, cap);
  const float share = wholes > sum ? std::clamp((available - sum) / (wholes - sum), 0.0F, 1.0F) : 0;
  for (const ColumnWidth& width : widths)
    ImGui::TableSetupColumn("",
                            ImGuiTableColumnFlags_WidthStretch,
                            std::max(1.0F, width.word + share * (width.whole - width.word)));
}

// Labels take the room that they need and texts the rest.
void set_up_labels(const std::vector<ColumnWidth>& widths) {
  ImGui::TableSetupColumn("", ImGuiTableColumnFlags_WidthFixed, widths.front().whole);
  for (std::size_t column = 1; column < widths.size(); ++column)
    ImGui::TableSetupColumn("", ImGuiTableColumnFlags_WidthStretch);
}

void draw_rows(const Section& section, const Palette& colors) {
  for (const SectionRow& row : section.rows) {
    ImGui::TableNextRow();
    for (std::size_t column = 0; column < row.texts.size(); ++column) {
      ImGui::TableSetColumnIndex(static_cast<int>(column));
      text_wrapped(color_of(section, row, column, colors), printable(row.texts[column]));
    }
  }
}

void draw_table(const Section& section, const Palette& colors) {
  const ImGuiTableFlags flags = ImGuiTableFlags_BordersInnerH | ImGuiTableFlags_SizingStretchProp;
  const int columns = static_cast<int>(section.columns.size());
  const float padding = 2 * ImGui::GetStyle().CellPadding.x * static_cast<float>(columns);
  const float available = ImGui::GetContentRegionAvail().x - padding;
  if (!ImGui::BeginTable(section.id.c_str(), columns, flags)) return;
  const std::vector<ColumnWidth> widths = column_widths(section);
  if (section.has_titles()) {
    set_up_table(widths, available);
    draw_titles(section, colors);
  } else {
    set_up_labels(widths);
  }
  draw_rows(section, colors);
  ImGui::EndTable();
}

} // namespace

void draw_titled(const Section& section, const Palette& colors) {
  text(colors.accent, section.title);
  draw_section(section, colors);
}

void draw_section(const Section& section, const Palette& colors) {
  if (section.columns.empty())
    for (const SectionRow& row : section.rows)
      text_wrapped(colors.text, printable(row.texts.front()));
  else if (!section.rows.empty())
    draw_table(section, colors);
  for (const std::string& note : section.notes) text_wrapped(colors.muted, printable(note));
}

} // namespace assay
