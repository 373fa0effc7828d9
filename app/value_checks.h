// Checks of values on the command line, in plain words. Their descriptions stay empty: help shows
// the option's value name alone.
#pragma once

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "core/text.h"

namespace assay {

// A number of `least` or more (`above`: of more than `least`).
inline CLI::Validator at_least(double least, bool above = false) {
  return CLI::Validator(
      [least, above](const std::string& text) -> std::string {
        char* end = nullptr;
        const double value = std::strtod(text.c_str(), &end);
        if (text.empty() || *end != '\0' || !std::isfinite(value))
          return fmt::format("'{}' is not a number", text);
        if (value > least || (value == least && !above)) return "";
        return fmt::format("must be {} {}, not {}", above ? "above" : "at least", least, text);
      },
      "");
}

// Seconds between readings: 0 for none, or a tenth and more.
inline CLI::Validator seconds_or_none() {
  return CLI::Validator(
      [](const std::string& text) -> std::string { return text == "0" ? "" : at_least(0.1)(text); },
      "");
}

// A whole number from `least` to `most`.
inline CLI::Validator whole_number(std::int64_t least, std::int64_t most = 1'000'000'000) {
  return CLI::Validator(
      [least, most](const std::string& text) -> std::string {
        std::int64_t value = 0;
        const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (code == std::errc::result_out_of_range)
          return fmt::format("must be at most {}, not {}", most, text);
        if (code != std::errc() || end != text.data() + text.size())
          return fmt::format("'{}' is not a whole number", text);
        if (value < least) return fmt::format("must be at least {}, not {}", least, text);
        return value <= most ? "" : fmt::format("must be at most {}, not {}", most, text);
      },
      "");
}

// A number from `least` to `most`.
inline CLI::Validator number_in(double least, double most) {
  return CLI::Validator(
      [least, most](const std::string& text) -> std::string {
        char* end = nullptr;
        const double value = std::strtod(text.c_str(), &end);
        if (text.empty() || *end != '\0' || std::isnan(value))
          return fmt::format("'{}' is not a number", text);
        if (value >= least && value <= most) return "";
        return fmt::format("must be from {} to {}, not {}", least, most, text);
      },
      "");
}

// A path that a matrix or a checkpoint can contain.
inline CLI::Validator utf8_path() {
  return CLI::Validator(
      [](const std::string& path) {
        return is_utf8(path) ? std::string()
                             : fmt::format("takes UTF-8 text, not '{}': rename the file or "
                                           "directory",
                                           escaped(path));
      },
      "");
}

// One of these words. They become the name of the option's value, by which completion offers them.
inline CLI::Option* one_of(CLI::Option* option, const std::vector<std::string>& words) {
  option->type_name(fmt::format("{}", fmt::join(words, "|")));
  return option->check(CLI::Validator(
      [words](const std::string& text) -> std::string {
        if (std::find(words.begin(), words.end(), text) != words.end()) return "";
        return fmt::format(
            "takes {}, not '{}'{}", fmt::join(words, ", "), text, did_you_mean(text, words));
      },
      ""));
}

// Of timed launches: a number, or as many as the results ask for.
inline CLI::Validator launch_count() {
  return CLI::Validator(
      [](std::string& text) {
        return text == "auto" ? std::string() : whole_number(1, 1'000'000)(text);
      },
      "");
}

} // namespace assay
