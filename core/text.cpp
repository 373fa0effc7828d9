#include "core/text.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <utf8.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <iomanip>
#include <locale>
#include <numeric>
#include <sstream>
#include <utility>

namespace assay {

namespace {

constexpr std::size_t kMostEdits = 2, kLeastPrefix = 2, kShortWord = 3;

// Letters replaced, added, left out, or swapped with their neighbour.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> rows(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  std::iota(rows[0].begin(), rows[0].end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    rows[i][0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = rows[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      rows[i][j] = std::min({rows[i - 1][j] + 1, rows[i][j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        rows[i][j] = std::min(rows[i][j], rows[i - 2][j - 2] + 1);
    }
  }
  return rows.back().back();
}

// Edits from `word` to `name`: at most two and fewer than half of its letters. A prefix counts as
// two. Nothing where the two are not alike.
// Dashes before an option are no part of its name.
std::optional<std::size_t> edits_between(std::string_view word, std::string_view name) {
  for (std::string_view* text : {&word, &name})
    text->remove_prefix(std::min(text->find_first_not_of('-'), text->size()));
  // People seldom miss the first of three letters.
  if (word.empty() || (word.size() <= kShortWord && !name.starts_with(word[0])))
    return std::nullopt;
  // Longer words are no name with a mistake, and cost time and memory by the square.
  if (word.size() <= name.size() + kMostEdits && name.size() <= word.size() + kMostEdits)
    if (const std::size_t edits = edit_distance(word, name);
        edits <= kMostEdits && 2 * edits < name.size())
      return edits;
  const bool prefix = std::min(word.size(), name.size()) >= kLeastPrefix &&
                      (name.starts_with(word) || word.starts_with(name));
  return prefix ? std::optional(kMostEdits) : std::nullopt;
}

// Controls of terminals (C0 but line feed and tab, DEL, C1), line separators that are no line feed,
// and marks that change the direction of what follows.
bool is_control(char32_t c) {
  if (c == '\n' || c == '\t') return false;
  return c < 0x20 || (c >= 0x7F && c <= 0x9F) || c == 0x2028 || c == 0x2029 || c == 0x061C ||
         c == 0x200E || c == 0x200F || (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
}

} // namespace

std::string closest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t fewest = kMostEdits + 1;
  for (const std::string& candidate : candidates)
    if (const auto edits = edits_between(word, candidate); edits && *edits < fewest) {
      fewest = *edits;
      best = candidate;
    }
  return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string best = closest(word, candidates);
  return best.empty() ? "" : fmt::format(" (did you mean '{}'?)", best);
}

std::string escape_html(std::string_view text) {
  std::string result;
  for (const char c : printable(text)) {
    switch (c) {
    case '&':
      result += "&amp;";
      break;
    case '<':
      result += "&lt;";
      break;
    case '>':
      result += "&gt;";
      break;
    case '"':
      result += "&quot;";
      break;
    case '\'':
      result += "&#39;";
      break;
    default:
      result += c;
    }
  }
  return result;
}

bool is_utf8(std::string_view text) {
  return utf8::is_valid(text.begin(), text.end());
}

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text)
    result += c >= 0x20 && c < 0x7f ? std::string(1, c)
                                    : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return result;
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string printable(std::string_view text) {
  std::string result;
  for (auto at = text.begin(); at != text.end();) {
    for (const auto valid = utf8::find_invalid(at, text.end()); at != valid;) {
      const auto from = at;
      if (!is_control(utf8::unchecked::next(at))) result.append(from, at);
    }
    if (at == text.end()) break;
    result += "\xEF\xBF\xBD";
    ++at;
  }
  return result;
}

std::string utc_now() {
  return fmt::format(
      "{:%Y-%m-%dT%H:%M:%SZ}",
      fmt::gmtime(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())));
}

std::optional<double> seconds_between(const std::string& from, const std::string& to) {
  const auto parse = [](const std::string& text) -> std::optional<std::time_t> {
    std::tm time{};
    std::istringstream in(text);
    in.imbue(std::locale::classic());
    in >> std::get_time(&time, "%Y-%m-%dT%H:%M:%SZ");
    return in ? std::optional(timegm(&time)) : std::nullopt;
  };
  const auto begin = parse(from), end = parse(to);
  return begin && end ? std::optional(std::difftime(*end, *begin)) : std::nullopt;
}

std::string plain_path(const std::string& path) {
  if (path.empty()) return path;
  std::filesystem::path result;
  for (const std::filesystem::path& part : std::filesystem::path(path))
    if (!part.empty() && part != ".") result /= part;
  return result.empty() ? "." : result.string();
}

std::string paths_within(std::string text, const std::string& directory) {
  if (directory.empty()) return text;
  const std::string start = directory.ends_with('/') ? directory : directory + "/";
  for (std::size_t at = 0; (at = text.find(start, at)) != std::string::npos;) {
    if (at == 0 || std::string_view(" '\"(").find(text[at - 1]) != std::string_view::npos)
      text.erase(at, start.size());
    else
      at += start.size(); // inside another path
  }
  return text;
}

std::string content_hash(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return fmt::format("{:016x}", hash);
}

int decimals_of_three(double value) {
  const double size = std::abs(value);
  if (size < 9.995) return 2;
  return size < 99.95 ? 1 : 0;
}

std::string three_digits(double value) {
  return fmt::format("{:.{}f}", value, decimals_of_three(value));
}

std::string human_bytes(double bytes) {
  constexpr std::array<const char*, 5> kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; std::abs(bytes) >= 1024 && unit + 1 < kUnits.size(); ++unit) bytes /= 1024;
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

std::string human_seconds(double seconds) {
  if (seconds >= 3600)
    return fmt::format(
        "{:.0f}h {:02.0f}m", std::floor(seconds / 3600), std::floor(std::fmod(seconds, 3600) / 60));
  if (seconds >= 60)
    return fmt::format(
        "{:.0f}m {:02.0f}s", std::floor(seconds / 60), std::floor(std::fmod(seconds, 60)));
  // What rounds to 1000 of a unit is 1 of the next.
  if (seconds >= 0.9995) return three_digits(seconds) + " s";
  if (seconds >= 0.9995e-3) return three_digits(seconds * 1e3) + " ms";
  return three_digits(seconds * 1e6) + " us";
}

} // namespace assay
