// Which of the two themes a person chose; colours are ui/style/theme.h's.
#pragma once

#include <optional>
#include <string_view>

namespace assay {

enum class ThemeKind { Dark, Light };

inline std::optional<ThemeKind> parse_theme(std::string_view name) { // "dark", "light"
  if (name == "dark") return ThemeKind::Dark;
  if (name == "light") return ThemeKind::Light;
  return std::nullopt;
}

} // namespace assay
