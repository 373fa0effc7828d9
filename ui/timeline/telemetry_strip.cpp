#include "ui/timeline/telemetry_strip.h"

#include <algorithm>

#include "core/text.h"
#include "imgui.h"
#include "ui/model/workspace.h"
#include "ui/style/widgets.h"

namespace assay {

float telemetry_strip_height() {
  return 1.5F * ImGui::GetFontSize();
}

void draw_telemetry_strips(const Workspace& workspace,
                           std::size_t side,
                           const std::vector<TelemetryStrip>& strips,
                           float gutter,
                           float width) {
  const Palette& colors = palette(workspace.theme);
  const float em = ImGui::GetFontSize(), height = telemetry_strip_height();
  const TimeRange range = workspace.timeline.range[side];
  const ImU32 line = to_u32(side == 0 ? colors.reference : colors.level);
  ImDrawList* const draw = ImGui::GetWindowDrawList();
  for (const TelemetryStrip& strip : strips) {
    const ImVec2 corner = ImGui::GetCursorScreenPos();
    ImGui::Dummy(ImVec2(gutter + width, height));
    if (ImGui::IsItemHovered())
      ImGui::SetTooltip("%s", // the scale, which a strip has no room for
                        fmt::format("{}; the strip shows {:.4g} to {:.4g}, the lowest and the "
                                    "highest value of both sides",
                                    strip.title,
                                    strip.low,
                                    strip.high)
                            .c_str());
    const float left = corner.x + gutter, top = corner.y + em * 0.15F;
    const float room = height - em * 0.3F;
    const ImVec4 clip(corner.x, corner.y, left - em * 0.4F, corner.y + height);
    draw->AddText(nullptr,
                  0,
                  ImVec2(corner.x, corner.y + (height - em) / 2),
                  to_u32(colors.muted),
                  strip.title.c_str(),
                  nullptr,
                  0,
                  &clip);
    draw->AddLine(
        ImVec2(corner.x, corner.y), ImVec2(left + width, corner.y), to_u32(colors.border, 0.5F));
    draw->PushClipRect(ImVec2(left, corner.y), ImVec2(left + width, corner.y + height), true);
    const auto point = [&](double seconds, double value) {
      const double share =
          strip.high > strip.low ? (value - strip.low) / (strip.high - strip.low) : 0.5;
      const double pixels = (seconds * 1e9 - range.from) / range.span * static_cast<double>(width);
      return ImVec2(left + static_cast<float>(std::clamp(pixels, -1e6, 1e6)),
                    top + room * static_cast<float>(1 - share));
    };
    if (strip.between && strip.mean) // dashed: without a sample
      for (float x = 0; x < width; x += em) {
        const float y = point(0, *strip.mean).y;
        draw->AddLine(ImVec2(left + x, y), ImVec2(left + x + em / 2, y), line, em / 10);
      }
    for (const Strip& part : samples_in_sight(workspace, side, strip, static_cast<int>(width)))
      for (std::size_t i = 0; i < part.x.size(); ++i) {
        const ImVec2 low = point(part.x[i], part.low[i]), high = point(part.x[i], part.high[i]);
        if (part.low[i] < part.high[i]) draw->AddLine(low, high, line);
        if (i > 0) draw->AddLine(point(part.x[i - 1], part.high[i - 1]), high, line, em / 10);
        if (part.x.size() < 30) draw->AddCircleFilled(high, em * 0.15F, line);
      }
    draw->PopClipRect();
  }
}

} // namespace assay
