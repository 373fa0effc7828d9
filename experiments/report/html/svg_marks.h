// Marks of the SVG plots. `css` is a class of the page's style sheet; lengths are pixels.
#pragma once

#include <string>
#include <vector>

namespace assay {

std::string svg_line(const char* css, double x1, double y1, double x2, double y2);
// At least one pixel wide and high.
std::string svg_rect(const char* css, double x, double y, double width, double height);
std::string
svg_label(const char* css, double x, double y, const std::string& anchor, const std::string& text);
// At most `length` code points, the rest as an ellipsis.
std::string shortened(const std::string& text, std::size_t length);
// Multiples of 1, 2 or 5 times a power of ten in [low, high]; four to nine of them.
std::vector<double> axis_ticks(double low, double high);

} // namespace assay
