#include "core/files/json_difference.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/files/json_text.h"

namespace assay {

namespace {

using nlohmann::json;

std::string value_text(const json& object, const std::string& key) {
  const auto found = object.find(key);
  return found == object.end() ? "nothing" : short_json(*found);
}

} // namespace

std::set<std::string> differing_keys(const json& a, const json& b) {
  std::set<std::string> keys;
  for (const json* side : {&a, &b})
    for (const auto& [key, value] : side->items())
      if (a.value(key, json()) != b.value(key, json())) keys.insert(key);
  return keys;
}

std::string difference_text(const std::string& key,
                            const json& a,
                            std::string_view in_a,
                            const json& b,
                            std::string_view in_b) {
  return fmt::format("{}: {} {}, {} {}", key, value_text(a, key), in_a, value_text(b, key), in_b);
}

} // namespace assay
