#include "experiments/report/html/svg_marks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "core/result.h"
#include "core/text.h"
#include "experiments/report/html/html_section.h"

namespace assay {

namespace {

constexpr const char* kTickCss = "muted small";

// Widths of ' ' to '~' in DejaVu Sans, the widest font of the style sheet; hundredths of an em,
// rounded up.
constexpr std::array<int, 95> kAdvance = {
    32, 41, 46, 84, 64, 96, 78, 28, 40,  40, 50, 84, 32, 37, 32, 34, 64, 64, 64, 64, 64, 64, 64, 64,
    64, 64, 34, 34, 84, 84, 84, 54, 100, 69, 69, 70, 78, 64, 58, 78, 76, 30, 30, 66, 56, 87, 75, 79,
    61, 79, 70, 64, 62, 74, 69, 99, 69,  62, 69, 40, 34, 40, 84, 50, 50, 62, 64, 55, 64, 62, 36, 64,
    64, 28, 28, 58, 28, 98, 64, 62, 64,  64, 42, 53, 40, 64, 60, 82, 60, 60, 53, 64, 34, 64, 84};

// The text, or as much of its begin as `room` pixels hold, with an ellipsis.
std::string fitted(const char* css, const std::string& text, double room) {
  std::string clean = printable(text);
  if (text_width(css, clean) <= room) return clean;
  std::size_t end = clean.size();
  do --end;
  while (end > 0 &&
         ((clean[end] & 0xC0) == 0x80 || text_width(css, clean.substr(0, end) + "…") > room));
  return clean.substr(0, end) + "…";
}

} // namespace

std::string svg_line(const char* css, double x1, double y1, double x2, double y2) {
  return fmt::format("<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>",
                     css,
                     x1,
                     y1,
                     x2,
                     y2);
}

std::string svg_rect(const char* css, double x, double y, double width, double height) {
  return fmt::format(
      "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>",
      css,
      x,
      y,
      std::max(width, 1.0),
      std::max(height, 1.0));
}

std::string svg_label(const char* css,
                      double x,
                      double y,
                      const std::string& anchor,
                      const std::string& text,
                      double room) {
  const std::string shown = fitted(css, text, room);
  return fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}{}</text>",
                     css,
                     x,
                     y,
                     anchor,
                     html_text(shown),
                     shown == printable(text) ? "" : "<title>" + html_text(text) + "</title>");
}

std::string svg_tick_label(double x, double y, const std::string& text, double width) {
  const double half = text_width(kTickCss, text) / 2;
  return svg_label(kTickCss, std::clamp(x, half, width - half), y, "middle", text);
}

double text_width(const char* css, const std::string& text) {
  double em = 0;
  for (const char c : printable(text))
    if ((c & 0xC0) != 0x80) // the first byte of a character
      em += c >= ' ' && c <= '~' ? kAdvance[static_cast<std::size_t>(c - ' ')] / 100.0 : 1;
  return em * (std::string_view(css).find("small") == std::string_view::npos ? 13 : 11.5);
}

std::vector<double> axis_ticks(double low, double high) {
  const double rough = (high - low) / 5;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = power;
  for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
    step = factor * power;
    if (step >= rough * 0.8) break;
  }
  std::vector<double> result;
  const double first = std::ceil(low / step);
  for (int i = 0; (first + i) * step <= high; ++i) result.push_back((first + i) * step);
  return result;
}

} // namespace assay
