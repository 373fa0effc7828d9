// Checks of numbers on the command line, in plain words.
#pragma once

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <string>

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
      "NUMBER");
}

} // namespace assay
