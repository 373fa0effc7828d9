// Marks of the SVG plots. `css` is a class of the page's style sheet; lengths are pixels.
#pragma once

#include <string>
#include <vector>

namespace assay {

std::string svg_line(const char* css, double x1, double y1, double x2, double y2);
// At least one pixel wide and high.
std::string svg_rect(const char* css, double x, double y, double width, double height);
// Shortened with an ellipsis to `room` pixels; the whole text is then its title.
std::string svg_label(const char* css,
                      double x,
                      double y,
                      const std::string& anchor,
                      const std::string& text,
                      double room = 980);
// Below the point `x` of an axis, moved where it would leave a picture of that width.
std::string svg_tick_label(double x, double y, const std::string& text, double width);
// At most so many pixels in any font of the style sheet.
double text_width(const char* css, const std::string& text);
// Multiples of 1, 2 or 5 times a power of ten in [low, high]; four to nine of them.
std::vector<double> axis_ticks(double low, double high);

} // namespace assay
