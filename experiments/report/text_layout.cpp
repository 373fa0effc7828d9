#include "experiments/report/text_layout.h"

#include <locale.h>
#include <wchar.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "core/result.h"
#include "core/terminal_width.h"
#include "core/text.h"

namespace assay {

namespace {

constexpr std::size_t kLongestInterval = 24; // "[+12.34, +56.78]", not a list in brackets

// "%" behind a number, "ms;" …
bool is_unit(std::string word) {
  while (!word.empty() && std::strchr(",;:.)", word.back()) != nullptr) word.pop_back();
  constexpr std::array kUnits{"%", "x", "s", "ms", "us", "ns", "KiB", "MiB", "GiB", "TiB"};
  return std::find(kUnits.begin(), kUnits.end(), word) != kUnits.end();
}

// The end of what must stay on one line: a word, with its interval's other bound and its unit.
std::size_t end_of_piece(const std::string& text, std::size_t at) {
  std::size_t end = std::min(text.find(' ', at), text.size());
  while (end < text.size()) {
    const std::string piece = text.substr(at, end - at);
    if (piece.empty()) break; // two spaces
    const std::size_t next = std::min(text.find(' ', end + 1), text.size());
    const bool open = piece.front() == '[' && piece.find_first_of("+-0123456789") == 1 &&
                      piece.find(']') == std::string::npos;
    const char last = piece.back();
    const bool number = (last >= '0' && last <= '9') || last == ']';
    if (!(open && next - at <= kLongestInterval) &&
        !(number && is_unit(text.substr(end + 1, next - end - 1))))
      break;
    end = next;
  }
  return end;
}

// Bytes and columns of one character.
struct Character {
  std::size_t bytes, columns;
};

// Needs text; a byte that is no UTF-8 counts as a column.
Character character_at(const std::string& text, std::size_t at) {
  static const locale_t utf8 = ::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  if (static_cast<unsigned char>(text[at]) < 0x80 || utf8 == nullptr) return {1, 1};
  const locale_t before = ::uselocale(utf8);
  wchar_t character = 0;
  std::mbstate_t state{};
  const std::size_t bytes = std::mbrtowc(&character, &text[at], text.size() - at, &state);
  const int columns = bytes > 0 && bytes <= text.size() - at ? ::wcwidth(character) : -1;
  ::uselocale(before);
  if (bytes == 0 || bytes > text.size() - at) return {1, 1};
  return {bytes, columns < 0 ? 1 : static_cast<std::size_t>(columns)};
}

// Bytes of the characters that fit.
std::size_t fitting(const std::string& text, std::size_t columns) {
  std::size_t end = 0, used = 0;
  while (end < text.size()) {
    const Character next = character_at(text, end);
    if (used + next.columns > columns) break;
    used += next.columns;
    end += next.bytes;
  }
  return end;
}

} // namespace

std::size_t display_width(const std::string& text) {
  std::size_t columns = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Character next = character_at(text, at);
    columns += next.columns;
    at += next.bytes;
  }
  return columns;
}

std::string padded(const std::string& text, std::size_t width, bool right) {
  const std::size_t have = display_width(text);
  const std::string space(have < width ? width - have : 0, ' ');
  return right ? space + text : text + space;
}

std::string cut_to(const std::string& text, std::size_t width) {
  if (display_width(text) <= width) return text;
  return text.substr(0, fitting(text, width > 2 ? width - 2 : 0)) + "..";
}

std::vector<std::string> wrap_words(const std::string& text, std::size_t width) {
  std::vector<std::string> lines(1);
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = end_of_piece(text, at);
    const std::size_t at_word = at;
    std::string word = text.substr(at, end - at);
    at = end + 1;
    while (display_width(word) > width) {
      const std::size_t cut = std::max(fitting(word, width), character_at(word, 0).bytes);
      if (!lines.back().empty()) lines.emplace_back();
      lines.back() = word.substr(0, cut);
      word = word.substr(cut);
      if (!word.empty()) lines.emplace_back();
    }
    if (word.empty() && end > at_word) continue; // all of it stands in the lines above
    if (lines.back().empty())
      lines.back() = word;
    else if (display_width(lines.back()) + 1 + display_width(word) <= width)
      lines.back() += " " + word;
    else
      lines.push_back(word);
  }
  return lines;
}

TextWriter::TextWriter(const TableStyle& style)
    : style_(style), width_(static_cast<std::size_t>(std::max(style.width, kLeastColumns))) {}

void TextWriter::line(const std::string& text, std::size_t indent, const std::string& mark) {
  const std::string clean = plain(printable(text));
  std::string lead = std::string(indent, ' ') + mark;
  for (const std::string& part : wrap_words(clean, width_ - indent - display_width(mark))) {
    out_ += lead + part + "\n";
    lead = std::string(indent + display_width(mark), ' ');
  }
}

void TextWriter::rule(std::size_t width, std::size_t indent) {
  std::string text(indent, ' ');
  for (std::size_t i = 0; i < std::min(width, width_); ++i) text += style_.unicode ? "─" : "-";
  raw(text);
}

void TextWriter::columns(const std::vector<std::vector<std::string>>& rows,
                         const std::vector<bool>& right,
                         std::size_t indent) {
  std::vector<std::size_t> widths(right.size());
  for (const std::vector<std::string>& row : rows) {
    if (row.size() > right.size())
      internal_error("{} columns with {} alignments", row.size(), right.size());
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], display_width(plain(printable(row[i]))));
  }
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::string text(indent, ' ');
    std::size_t used = indent;
    for (std::size_t i = 0; i < rows[r].size(); ++i) {
      const std::string cell = plain(printable(rows[r][i]));
      const bool last = i + 1 == rows[r].size();
      const std::size_t left = width_ > used ? width_ - used : 0;
      if (last && !right[i])
        text += cut_to(cell, std::max<std::size_t>(left, 8));
      else
        text += padded(cell, widths[i], right[i]) + (last ? "" : "  ");
      used += widths[i] + 2;
    }
    raw(text.substr(0, text.find_last_not_of(' ') + 1));
    if (r == 0) rule(std::min(used, width_));
  }
}

std::string TextWriter::colored(const std::string& text, Tone tone) const {
  constexpr std::array<const char*, 4> kCodes{"32", "33", "2", "31"};
  if (!style_.color) return text;
  return fmt::format("\x1b[{}m{}\x1b[0m", kCodes[static_cast<std::size_t>(tone)], text);
}

std::string TextWriter::plain(const std::string& text) const {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (style_.unicode && text.compare(i, 2, "->") == 0) {
      result += "→";
      ++i;
    } else if (style_.unicode || byte < 0x80) {
      result += text[i];
    } else if (byte >= 0xC0) {
      const bool dot = text.compare(i, 2, "·") == 0;
      result += dot ? "/" : "?";
    }
  }
  return result;
}

} // namespace assay
