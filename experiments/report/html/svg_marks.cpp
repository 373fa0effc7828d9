#include "experiments/report/html/svg_marks.h"

#include <algorithm>
#include <cmath>

#include "core/result.h"
#include "core/text.h"
#include "experiments/report/html/html_section.h"

namespace assay {

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

std::string
svg_label(const char* css, double x, double y, const std::string& anchor, const std::string& text) {
  return fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>",
                     css,
                     x,
                     y,
                     anchor,
                     html_text(text));
}

// At most `length` code points, the rest as an ellipsis.
std::string shortened(const std::string& text, std::size_t length) {
  std::string clean = printable(text);
  std::size_t seen = 0;
  for (std::size_t i = 0; i < clean.size(); ++i)
    if ((clean[i] & 0xC0) != 0x80 && seen++ == length - 1 && i + 1 < clean.size())
      return clean.substr(0, i) + "…";
  return clean;
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
