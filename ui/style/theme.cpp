#include "ui/style/theme.h"

#include <algorithm>
#include <cmath>

#include "imgui.h"
#include "implot.h"

#include "experiments/evidence/verdict.h"
#include "ui/style/widgets.h"

namespace assay {
namespace {

constexpr Color hex(std::uint32_t rgb) {
  return {static_cast<std::uint8_t>(rgb >> 16),
          static_cast<std::uint8_t>(rgb >> 8),
          static_cast<std::uint8_t>(rgb)};
}

constexpr Palette kDark{.window = hex(0x14171b),
                        .panel = hex(0x1b1f24),
                        .panel_alternate = hex(0x20252b),
                        .selected = hex(0x263a52),
                        .border = hex(0x39414a),
                        .text = hex(0xe6e9ec),
                        .muted = hex(0xa9b1ba),
                        .accent = hex(0x7cbcff),
                        .good = hex(0x5cc8a8),
                        .bad = hex(0xf59a7a),
                        .neutral = hex(0xb4bcc5),
                        .warning = hex(0xe3bd6a),
                        .on_badge = hex(0x14171b),
                        .reference = hex(0x3d9bd6),
                        .level = hex(0xe8782f),
                        .band = hex(0x3b444e),
                        .claim = hex(0x2d5c7e)};

constexpr Palette kLight{.window = hex(0xf2f4f6),
                         .panel = hex(0xffffff),
                         .panel_alternate = hex(0xf5f7f9),
                         .selected = hex(0xd6e6f7),
                         .border = hex(0xc3cad1),
                         .text = hex(0x1a1e23),
                         .muted = hex(0x4f5963),
                         .accent = hex(0x0a4f96),
                         .good = hex(0x00604f),
                         .bad = hex(0x9a3412),
                         .neutral = hex(0x46505a),
                         .warning = hex(0x6f4a00),
                         .on_badge = hex(0xffffff),
                         .reference = hex(0x0072b2),
                         .level = hex(0xd55e00),
                         .band = hex(0xd9dee3),
                         .claim = hex(0xa9cfee)};

// sRGB channel to linear light (WCAG 2.1, definition of relative luminance).
double linear(std::uint8_t channel) {
  const double value = channel / 255.0;
  return value <= 0.04045 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4);
}

double luminance(Color color) {
  return 0.2126 * linear(color.r) + 0.7152 * linear(color.g) + 0.0722 * linear(color.b);
}

void apply_imgui_colors(const Palette& p, ImVec4* colors) {
  for (int i = 0; i < ImGuiCol_COUNT; ++i) colors[i] = to_vec4(p.panel);
  for (const int text : {ImGuiCol_Text, ImGuiCol_CheckMark, ImGuiCol_PlotLines, ImGuiCol_NavCursor})
    colors[text] = to_vec4(p.text);
  colors[ImGuiCol_TextDisabled] = to_vec4(p.muted);
  colors[ImGuiCol_TextLink] = to_vec4(p.accent);
  colors[ImGuiCol_WindowBg] = to_vec4(p.window);
  for (const int border : {ImGuiCol_Border,
                           ImGuiCol_Separator,
                           ImGuiCol_TableBorderLight,
                           ImGuiCol_TableBorderStrong,
                           ImGuiCol_ScrollbarGrab})
    colors[border] = to_vec4(p.border);
  for (const int grab : {ImGuiCol_ScrollbarGrabHovered,
                         ImGuiCol_ScrollbarGrabActive,
                         ImGuiCol_SeparatorHovered,
                         ImGuiCol_SeparatorActive})
    colors[grab] = to_vec4(p.accent);
  for (const int selected : {ImGuiCol_Header, ImGuiCol_HeaderHovered, ImGuiCol_HeaderActive})
    colors[selected] = to_vec4(p.selected);
  colors[ImGuiCol_BorderShadow] = ImVec4(0, 0, 0, 0);
  colors[ImGuiCol_ChildBg] = ImVec4(0, 0, 0, 0); // every fill costs time under software OpenGL
  colors[ImGuiCol_FrameBg] = colors[ImGuiCol_Button] = to_vec4(p.panel_alternate);
  colors[ImGuiCol_ButtonHovered] = colors[ImGuiCol_ButtonActive] = to_vec4(p.selected);
  colors[ImGuiCol_InputTextCursor] = to_vec4(p.text);
  colors[ImGuiCol_ScrollbarBg] = ImVec4(0, 0, 0, 0);
  colors[ImGuiCol_TableHeaderBg] = to_vec4(p.panel_alternate);
  colors[ImGuiCol_TableRowBg] = ImVec4(0, 0, 0, 0);
  colors[ImGuiCol_TableRowBgAlt] = to_vec4(p.panel_alternate);
  colors[ImGuiCol_TextSelectedBg] = to_vec4(p.selected);
  colors[ImGuiCol_ModalWindowDimBg] = to_vec4(p.window, 0.7F);
}

void apply_plot_colors(const Palette& p) {
  ImPlot::StyleColorsAuto();
  ImVec4* const colors = ImPlot::GetStyle().Colors;
  colors[ImPlotCol_FrameBg] = colors[ImPlotCol_PlotBg] = ImVec4(0, 0, 0, 0);
  colors[ImPlotCol_PlotBorder] = to_vec4(p.border);
  colors[ImPlotCol_AxisGrid] = to_vec4(p.border, 0.6F);
  colors[ImPlotCol_AxisText] = colors[ImPlotCol_TitleText] = to_vec4(p.muted);
}

} // namespace

Color Palette::tone(Tone tone) const {
  switch (tone) {
  case Tone::Good:
    return good;
  case Tone::Bad:
    return bad;
  case Tone::Mixed:
    return warning;
  case Tone::Neutral:
    return neutral;
  }
  return neutral;
}

const Palette& palette(ThemeKind kind) {
  return kind == ThemeKind::Dark ? kDark : kLight;
}

double contrast(Color a, Color b) {
  const auto [dark, light] = std::minmax({luminance(a), luminance(b)});
  return (light + 0.05) / (dark + 0.05);
}

void apply_theme(ThemeKind kind, float scale) {
  ImGuiStyle style; // from ImGui's defaults each time: ScaleAllSizes accumulates
  style.FontSizeBase = ImGui::GetStyle().FontSizeBase;
  style.WindowBorderSize = 0;
  style.FrameBorderSize = 1;
  style.WindowPadding = ImVec2(14, 12);
  style.CellPadding = ImVec2(8, 5);
  style.FramePadding = ImVec2(4, 2);
  style.ItemSpacing = ImVec2(8, 6);
  style.ScrollbarSize = 12;
  apply_imgui_colors(palette(kind), style.Colors);
  style.ScaleAllSizes(scale);
  style.FontScaleMain = scale;
  ImGui::GetStyle() = style;
  apply_plot_colors(palette(kind));
}

} // namespace assay
