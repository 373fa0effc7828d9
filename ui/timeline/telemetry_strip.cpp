#include "ui/timeline/telemetry_strip.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "core/text.h"
#include "imgui.h"
#include "ui/telemetry_model.h"
#include "ui/timeline/align.h"
#include "ui/widgets.h"

namespace assay {
namespace {

// What first tells a disturbed step from a quiet one. The rest is on the Telemetry screen.
constexpr std::array<std::string_view, 5> kTelling{
    "SM clock [MHz]", "Power [W]", "GPU busy [%]", "CPU busy [%]", "Resident memory [MiB]"};
constexpr std::size_t kMostStrips = 3;

const TelemetrySeries*
series_named(const Workspace& workspace, std::size_t side, std::string_view name) {
  if (!workspace.traces[side].view) return nullptr;
  for (const TelemetrySeries& series : workspace.traces[side].view->trace().telemetry)
    if (series.metric.name == name && !series.value.empty()) return &series;
  return nullptr;
}

std::vector<Strip>
in_sight(const Workspace& workspace, std::size_t side, const TelemetryStrip& strip, int columns) {
  const TraceView& view = *workspace.traces[side].view;
  const TimeRange range = workspace.timeline.range[side];
  return strips(*strip.series,
                view.series()[strip.index].spacing_ns,
                anchor(workspace, side),
                range.from / 1e9,
                (range.from + range.span) / 1e9,
                columns);
}

// Whether a sample lies within the shown time, not only beside it.
bool any_inside(const std::vector<Strip>& seen, TimeRange range) {
  return std::any_of(seen.begin(), seen.end(), [&](const Strip& strip) {
    return std::any_of(strip.x.begin(), strip.x.end(), [&](double x) {
      return x * 1e9 >= range.from && x * 1e9 <= range.from + range.span;
    });
  });
}

std::optional<double> mean(const std::vector<Strip>& seen) {
  double sum = 0;
  std::size_t count = 0;
  for (const Strip& strip : seen)
    for (std::size_t i = 0; i < strip.x.size(); ++i, ++count)
      sum += (strip.low[i] + strip.high[i]) / 2;
  if (count == 0) return std::nullopt;
  return sum / static_cast<double>(count);
}

} // namespace

std::vector<TelemetryStrip> telemetry_strips(const Workspace& workspace, std::size_t side) {
  std::vector<TelemetryStrip> chosen;
  if (!workspace.timeline.strips) return chosen;
  for (const std::string_view name : kTelling) {
    TelemetryStrip strip;
    strip.series = series_named(workspace, side, name);
    if (strip.series == nullptr || chosen.size() == kMostStrips) continue;
    strip.index = static_cast<std::size_t>(strip.series -
                                           workspace.traces[side].view->trace().telemetry.data());
    strip.low = std::numeric_limits<double>::infinity();
    strip.high = -strip.low;
    for (std::size_t of = 0; of < 2; ++of)
      if (const TelemetrySeries* series = series_named(workspace, of, name)) {
        const auto [low, high] = std::minmax_element(series->value.begin(), series->value.end());
        strip.low = std::min(strip.low, *low);
        strip.high = std::max(strip.high, *high);
      }
    constexpr int kColumns = 100;
    const std::vector<Strip> seen = in_sight(workspace, side, strip, kColumns);
    strip.mean = mean(seen);
    strip.between = !any_inside(seen, workspace.timeline.range[side]);
    strip.title = printable(name) + " " +
                  (strip.mean ? fmt::format("{}{:.4g}", strip.between ? "~" : "", *strip.mean)
                              : "no sample here");
    chosen.push_back(std::move(strip));
  }
  return chosen;
}

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
                        fmt::format("{}; the strip shows {:.4g} to {:.4g}, the least and the most "
                                    "of A and B",
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
    if (strip.between && strip.mean) // dashed: no sample says so
      for (float x = 0; x < width; x += em) {
        const float y = point(0, *strip.mean).y;
        draw->AddLine(ImVec2(left + x, y), ImVec2(left + x + em / 2, y), line, em / 10);
      }
    for (const Strip& part : in_sight(workspace, side, strip, static_cast<int>(width)))
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
