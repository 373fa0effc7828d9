// TextWriter: lines and columns of text for a terminal, wrapped to its width, in ASCII where the
// terminal has no more.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "experiments/report/render.h"

namespace assay {

// Columns on screen of UTF-8 text: 2 of a wide letter or an emoji, 0 of a mark that joins another.
std::size_t display_width(const std::string& text);
std::string padded(const std::string& text, std::size_t width, bool right);
// At most `width` columns, the end cut off behind "..".
std::string cut_to(const std::string& text, std::size_t width);

// Lines of at most `width` columns. Breaks at spaces, but not inside an interval or before a unit;
// a word longer than the line is cut.
std::vector<std::string> wrap_words(const std::string& text, std::size_t width);

class TextWriter {
public:
  explicit TextWriter(const TableStyle& style);

  // Wrapped at words; `mark` precedes the first line, the others are indented by its width.
  void line(const std::string& text, std::size_t indent = 0, const std::string& mark = "");
  void raw(const std::string& text) { out_ += text + "\n"; }
  void rule(std::size_t width, std::size_t indent = 0);
  // Rows of equal length, the first one a header; `right` names the right-aligned columns. The
  // last column is cut where the line is full.
  void columns(const std::vector<std::vector<std::string>>& rows,
               const std::vector<bool>& right,
               std::size_t indent);
  std::string colored(const std::string& text, Tone tone) const;
  // Arrow, dot and rule have ASCII forms; whatever else is not ASCII becomes '?'.
  std::string plain(const std::string& text) const;
  std::size_t width() const { return width_; }
  std::string take() { return std::move(out_); }

private:
  TableStyle style_;
  std::size_t width_;
  std::string out_;
};

} // namespace assay
