#include "ui/screens/speed_table.h"

#include <algorithm>

#include "core/text.h"
#include "imgui.h"
#include "ui/model/results/speed_model.h"
#include "ui/style/widgets.h"

namespace assay {
namespace {

void header(const std::string& variant, std::size_t side, const Palette& colors) {
  ImGui::TableSetColumnIndex(static_cast<int>(side) + 1);
  side_mark(colors, side);
  text_cut(colors.text, printable(variant));
}

} // namespace

void draw_speed(const SpeedModel& model, const Comparison& comparison, const Palette& colors) {
  if (model.step_beside)
    text_wrapped(colors.muted,
                 "Of the train step beside this cell's unit, the same for A and B; the memory is "
                 "each variant's own.");
  const ImGuiTableFlags flags = ImGuiTableFlags_BordersInnerH | ImGuiTableFlags_SizingStretchProp;
  if (ImGui::BeginTable("speed", 3, flags)) {
    ImGui::TableNextRow();
    header(comparison.a, 0, colors);
    header(comparison.b, 1, colors);
    for (const SpeedRow& row : model.rows) {
      ImGui::TableNextRow();
      ImGui::TableSetColumnIndex(0);
      text_wrapped(colors.muted, row.label);
      for (std::size_t side = 0; side < 2; ++side) {
        ImGui::TableSetColumnIndex(static_cast<int>(side) + 1);
        text_wrapped(row.values[side] == "-" ? colors.muted : colors.text, row.values[side]);
      }
    }
    ImGui::EndTable();
  }
  for (const std::string& note : model.notes) text_wrapped(colors.muted, note);
}

} // namespace assay
