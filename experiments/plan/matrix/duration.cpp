#include <algorithm>
#include <cctype>
#include <charconv>
#include <iterator>

#include "core/text.h"
#include "experiments/plan/matrix/matrix.h"

namespace assay {

namespace {

constexpr double kMostSeconds = 365.0 * 24 * 3600;

struct TimeUnit {
  char letter;
  double seconds;
};
constexpr TimeUnit kUnits[] = {{'h', 3600}, {'m', 60}, {'s', 1}};

Error no_duration(const std::string& text) {
  return fail("'{}' is not a duration; write 90s, 25m or 1h30m", printable(text));
}

} // namespace

Result<double> parse_duration(const std::string& text) {
  const char* const end = text.data() + text.size();
  const char* at = text.data();
  double seconds = 0;
  for (const TimeUnit* unit = std::begin(kUnits); at != end; ++unit) {
    double number = 0;
    const auto [next, code] = std::from_chars(at, end, number, std::chars_format::fixed);
    if (code != std::errc() || !std::isdigit(static_cast<unsigned char>(*at)))
      return no_duration(text);
    const char letter = next == end && at == text.data() ? 's' : next == end ? '?' : *next;
    unit = std::find_if(
        unit, std::end(kUnits), [&](const TimeUnit& known) { return known.letter == letter; });
    if (unit == std::end(kUnits)) return no_duration(text);
    seconds += number * unit->seconds;
    at = next == end ? end : next + 1;
  }
  if (!(seconds > 0))
    return text.empty() ? no_duration(text) : fail("'{}' is not above 0", printable(text));
  if (seconds > kMostSeconds)
    return fail("'{}' is more than a year (8760h), the longest duration", printable(text));
  return seconds;
}

} // namespace assay
