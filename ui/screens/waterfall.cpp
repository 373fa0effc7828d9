#include "ui/screens/waterfall.h"

#include <algorithm>

#include "imgui.h"
#include "ui/model/navigate.h"
#include "ui/model/results/compare_model.h"
#include "ui/model/workspace.h"
#include "ui/style/input.h"
#include "ui/style/trace_colors.h"
#include "ui/style/widgets.h"

namespace assay {
namespace {

// Where a row's words stand: behind its bar, or in a line below where the window is too narrow.
struct Words {
  bool below;
  float x;
};

struct Axis {
  double low, high;
  float left, width;
  float x(double ns) const {
    const double share = (ns - low) / (high - low);
    return left + static_cast<float>(std::clamp(share, 0.0, 1.0)) * width;
  }
};

std::string words_of(const WaterfallBar& bar) {
  return bar.stage && !bar.clear ? bar.words + ", not significant" : bar.words;
}

Color color_of(const WaterfallBar& bar, const Palette& colors, bool first) {
  if (bar.kind == WaterfallBar::Kind::Total) return first ? colors.reference : colors.level;
  return bar.stage ? stage_color(*bar.stage) : colors.neutral;
}

// Two short slanted lines over the foot of a bar whose axis does not begin at zero.
void draw_break(float x, float top, float bottom, const Palette& colors) {
  const float em = ImGui::GetFontSize();
  ImDrawList* const draw = ImGui::GetWindowDrawList();
  for (const float at : {x + em * 0.8F, x + em * 1.1F})
    draw->AddLine(ImVec2(at - em * 0.2F, bottom),
                  ImVec2(at + em * 0.2F, top),
                  to_u32(colors.window),
                  em * 0.14F);
}

void draw_bar(const WaterfallBar& bar,
              const Axis& axis,
              ImVec2 corner,
              float height,
              const Palette& colors,
              bool first,
              bool broken) {
  const float em = ImGui::GetFontSize();
  ImDrawList* const draw = ImGui::GetWindowDrawList();
  const bool total = bar.kind == WaterfallBar::Kind::Total;
  const float from = axis.x(total ? axis.low : std::min(bar.from_ns, bar.to_ns));
  const float to = std::max(axis.x(std::max(bar.from_ns, bar.to_ns)), from + em * 0.15F);
  const ImVec2 low(from, corner.y + height * 0.18F), high(to, corner.y + height * 0.82F);
  const Color fill = color_of(bar, colors, first);
  draw->AddRectFilled(low, high, to_u32(fill, bar.clear ? 1.0F : 0.55F));
  if (!bar.clear) hatch(low, high, to_u32(colors.window, 0.9F));
  if (total && broken) draw_break(from, low.y, high.y, colors);
  if (bar.interval) {
    const float a = axis.x(bar.from_ns + bar.interval->lower);
    const float b = axis.x(bar.from_ns + bar.interval->upper);
    const float y = (low.y + high.y) / 2, line = std::max(1.0F, em / 10);
    draw->AddLine(ImVec2(a, y), ImVec2(b, y), to_u32(colors.text), line);
    for (const float x : {a, b})
      draw->AddLine(
          ImVec2(x, y - height * 0.2F), ImVec2(x, y + height * 0.2F), to_u32(colors.text), line);
  }
}

void draw_row(Workspace& workspace,
              const WaterfallModel& model,
              std::size_t index,
              const Axis& axis,
              const Words& place) {
  const Palette& colors = palette(workspace.theme);
  const WaterfallBar& bar = model.bars[index];
  const float em = ImGui::GetFontSize(), line = em * 1.75F;
  const float height = place.below ? line + em * 1.2F : line;
  const ImVec2 corner = ImGui::GetCursorScreenPos();
  const float width = ImGui::GetContentRegionAvail().x;
  ImDrawList* const draw = ImGui::GetWindowDrawList();
  ImGui::PushID(static_cast<int>(index));
  if (bar.stage)
    mark_target(
        workspace, fmt::format("waterfall.{}", bar.label), corner.x + em, corner.y + line / 2);
  const bool clicked = ImGui::InvisibleButton("row", ImVec2(width, height));
  const bool selected = bar.stage && workspace.stage == bar.stage;
  if (selected || (bar.stage && ImGui::IsItemHovered()))
    draw->AddRectFilled(
        corner, ImVec2(corner.x + width, corner.y + height), to_u32(colors.selected));
  const float text_y = corner.y + (line - em) / 2;
  draw->AddText(ImVec2(corner.x + em * 0.3F, text_y), to_u32(colors.text), bar.label.c_str());
  draw_bar(bar, axis, corner, line, colors, index == 0, model.low_ns > 0);
  const std::string words = words_of(bar);
  draw->AddText(ImVec2(place.x, place.below ? text_y + em * 1.2F : text_y),
                to_u32(bar.clear ? colors.text : colors.muted),
                words.c_str());
  if (clicked && bar.stage) {
    workspace.stage = bar.stage;
    workspace.timeline.align = Align::StepStart;
    workspace.timeline.fit = true;
    go_to(workspace, ScreenId::Timeline);
  }
  ImGui::PopID();
}

} // namespace

void draw_waterfall(Workspace& workspace, const WaterfallModel& model) {
  const Palette& colors = palette(workspace.theme);
  const float em = ImGui::GetFontSize();
  float labels = 0, words = 0;
  for (const WaterfallBar& bar : model.bars) {
    labels = std::max(labels, ImGui::CalcTextSize(bar.label.c_str()).x);
    words = std::max(words, ImGui::CalcTextSize(words_of(bar).c_str()).x);
  }
  const float left = ImGui::GetCursorScreenPos().x, width = ImGui::GetContentRegionAvail().x;
  const float beside = width - labels - words - 2 * em; // what is left for bars
  const Words place = beside < 4 * em ? Words{true, left + em * 1.3F}
                                      : Words{false, left + width - words - em * 0.3F};
  const Axis axis{model.low_ns,
                  model.high_ns,
                  left + labels + em,
                  place.below ? std::max(2 * em, width - labels - 1.5F * em) : beside};
  if (!model.warning.empty()) text_wrapped(colors.warning, "! " + model.warning);
  for (std::size_t i = 0; i < model.bars.size(); ++i) draw_row(workspace, model, i, axis, place);
  for (const std::string& note : model.notes) text_wrapped(colors.muted, note);
}

} // namespace assay
