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

// Labels take the room that they need and texts the rest; the columns of a table share it.
void set_up_columns(const Section& section) {
  float width = 0;
  for (const SectionRow& row : section.rows)
    width = std::max(width, ImGui::CalcTextSize(printable(row.texts.front()).c_str()).x);
  for (std::size_t column = 0; column < section.columns.size(); ++column)
    if (column == 0 && !section.has_titles())
      ImGui::TableSetupColumn("", ImGuiTableColumnFlags_WidthFixed, width);
    else
      ImGui::TableSetupColumn("", ImGuiTableColumnFlags_WidthStretch);
}

} // namespace

void draw_section(const Section& section, const Palette& colors) {
  const ImGuiTableFlags flags = ImGuiTableFlags_BordersInnerH | ImGuiTableFlags_SizingStretchProp;
  if (section.columns.empty()) {
    for (const SectionRow& row : section.rows)
      text_wrapped(colors.text, printable(row.texts.front()));
  } else if (ImGui::BeginTable(
                 section.id.c_str(), static_cast<int>(section.columns.size()), flags)) {
    set_up_columns(section);
    if (section.has_titles()) draw_titles(section, colors);
    for (const SectionRow& row : section.rows) {
      ImGui::TableNextRow();
      for (std::size_t column = 0; column < row.texts.size(); ++column) {
        ImGui::TableSetColumnIndex(static_cast<int>(column));
        text_wrapped(color_of(section, row, column, colors), printable(row.texts[column]));
      }
    }
    ImGui::EndTable();
  }
  for (const std::string& note : section.notes) text_wrapped(colors.muted, printable(note));
}

} // namespace assay
