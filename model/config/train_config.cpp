#include "model/config/train_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <type_traits>

#include "core/files/toml_text.h"
#include "core/text.h"
#include "model/config/key_bounds.h"
#include "model/config/key_choices.h"

namespace assay {

namespace {

// "MaskDense, Packed" -> {"mask_dense", "packed"}: the text forms of a row's enumerators.
std::vector<std::string> snake_case_names(std::string_view enumerators) {
  std::vector<std::string> names(1);
  for (const char c : enumerators) {
    if (c == ',') {
      names.emplace_back();
    } else if (std::isupper(static_cast<unsigned char>(c)) != 0) {
      if (!names.back().empty()) names.back() += '_';
      names.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (c != ' ') {
      names.back() += c;
    }
  }
  return names;
}

// Text of every enumerator, in order.
template <class E> const std::vector<std::string>& enum_names();
#define KEY(Type, name, initial, summary)
#define CHOICE(Enum, name, initial, summary, ...)                                                  \
  template <> const std::vector<std::string>& enum_names<Enum>() {                                 \
    static const std::vector<std::string> names = snake_case_names(#__VA_ARGS__);                  \
    return names;                                                                                  \
  }
#define HIDDEN_KEY KEY
#define HIDDEN_CHOICE CHOICE
#include "model/config/train_keys.inc"

// Calls visit(name, member reference, summary, hidden) for each key, in order.
template <class Config, class Visit> void for_each_key(Config& c, Visit visit) {
#define KEY(Type, name, initial, summary) visit(#name, c.name, summary, false);
#define CHOICE(Enum, name, initial, summary, ...) visit(#name, c.name, summary, false);
#define HIDDEN_KEY(Type, name, initial, summary) visit(#name, c.name, summary, true);
#define HIDDEN_CHOICE(Enum, name, initial, summary, ...) visit(#name, c.name, summary, true);
#include "model/config/train_keys.inc"
}

template <class T> std::string type_name() {
  if constexpr (std::is_enum_v<T>) return fmt::format("one of {}", fmt::join(enum_names<T>(), "|"));
  if constexpr (std::is_same_v<T, bool>) return "bool";
  if constexpr (std::is_same_v<T, double>) return "float";
  if constexpr (std::is_integral_v<T>) return "int";
  return "string";
}

// What a key takes, for people.
template <class T> std::string value_words() {
  if constexpr (std::is_same_v<T, bool>) return "true or false";
  if constexpr (std::is_same_v<T, double>) return "a number";
  if constexpr (std::is_integral_v<T>) return "a whole number";
  if constexpr (std::is_enum_v<T>) return type_name<T>();
  return "a text";
}

template <class T> nlohmann::json value_to_json(const T& value) {
  if constexpr (std::is_enum_v<T>)
    return enum_names<T>()[static_cast<std::size_t>(value)];
  else
    return value;
}

// As a person wrote it: JSON has no nan and no inf.
std::string value_text(const nlohmann::json& value) {
  if (value.is_number_float()) return toml_float(value.get<double>());
  return printable(value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

bool is_whole(const nlohmann::json& value) {
  if (!value.is_number_float()) return value.is_number_integer();
  const double number = value.get<double>();
  return std::isfinite(number) && number == std::trunc(number);
}

// Whether a whole number has a place in T.
template <class T> bool fits(const nlohmann::json& value) {
  if (value.is_number_unsigned())
    return value.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<T>::max());
  if (!value.is_number_float()) return true; // its sign is checked
  const double beyond = std::ldexp(1.0, std::numeric_limits<T>::digits);
  return value.get<double>() >= -beyond && value.get<double>() < beyond;
}

const KeyBounds& bounds_of(std::string_view key) {
  for (const KeyBounds& bounds : integer_bounds())
    if (bounds.name == key) return bounds;
  internal_error("integer key '{}' has no bounds", key);
}

Result<bool> beyond_bound(std::string_view key, bool above, std::int64_t bound, const auto& value) {
  return fail("key '{}' must be at {} {}, not {}", key, above ? "most" : "least", bound, value);
}

// Of a number beyond 64 bits.
Result<bool> outside(std::string_view key, const nlohmann::json& value) {
  const bool above = value.get<double>() > 0;
  for (const KeyBounds& bounds : integer_bounds())
    if (bounds.name == key)
      return beyond_bound(key, above, above ? bounds.most : bounds.least, value_text(value));
  return fail("key '{}' takes a whole number of 64 bits, not {}", key, value_text(value));
}

template <class T>
Result<bool> assign(T& target, std::string_view key, const nlohmann::json& value) {
  const auto wrong = [&] {
    return fail("key '{}' takes {}, not {}", key, value_words<T>(), value_text(value));
  };
  if constexpr (std::is_enum_v<T>) {
    if (!value.is_string()) return wrong();
    const std::vector<std::string>& names = enum_names<T>();
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (names[i] == value.get<std::string>()) {
        target = static_cast<T>(i);
        return true;
      }
    }
    return wrong();
  } else if constexpr (std::is_same_v<T, bool>) {
    if (!value.is_boolean()) return wrong();
    target = value.get<bool>();
  } else if constexpr (std::is_same_v<T, double>) {
    if (!value.is_number()) return wrong();
    if (!std::isfinite(value.get<double>()))
      return fail("key '{}' takes a finite number, not {}", key, value.get<double>());
    target = value.get<double>();
  } else if constexpr (std::is_integral_v<T>) {
    if (!is_whole(value)) return wrong();
    if constexpr (std::is_unsigned_v<T>)
      if (value.get<double>() < 0) return beyond_bound(key, false, 0, value_text(value));
    if (!fits<T>(value)) return outside(key, value);
    if constexpr (std::is_signed_v<T>)
      if (Result<bool> ok = check_bounds(bounds_of(key), value.get<T>()); !ok) return ok;
    target = value.get<T>();
  } else {
    if (!value.is_string()) return wrong();
    const std::string text = value.get<std::string>();
    if (!is_utf8(text))
      return fail(
          "key '{}' takes UTF-8 text, not '{}': rename the file or directory", key, escaped(text));
    target = text;
  }
  return true;
}

std::vector<std::string> key_names() {
  std::vector<std::string> names;
  for (const ConfigKey& key : config_keys())
    if (!key.hidden) names.push_back(key.name);
  return names;
}

} // namespace

const std::vector<ConfigKey>& config_keys() {
  static const std::vector<ConfigKey> keys = [] {
    std::vector<ConfigKey> result;
    TrainConfig config;
    for_each_key(config, [&](const char* name, auto& member, const char* summary, bool hidden) {
      result.push_back({name, type_name<std::decay_t<decltype(member)>>(), summary, hidden});
    });
    return result;
  }();
  return keys;
}

const std::vector<KeyBounds>& integer_bounds() {
  static const std::vector<KeyBounds> all{
#define KEY(Type, name, initial, summary)
#define INTEGER(name, initial, least, most, summary) {#name, initial, least, most},
#define CHOICE(Enum, name, initial, summary, ...)
#define HIDDEN_KEY KEY
#define HIDDEN_CHOICE CHOICE
#include "model/config/train_keys.inc"
  };
  return all;
}

Result<bool> check_bounds(const KeyBounds& bounds, std::int64_t value) {
  if (value == bounds.initial || (value >= bounds.least && value <= bounds.most)) return true;
  const bool above = value > bounds.most;
  return beyond_bound(bounds.name, above, above ? bounds.most : bounds.least, value);
}

const std::vector<std::string>& key_choices(std::string_view key) {
  static const std::vector<std::string> none;
  const std::vector<std::string>* found = &none;
  const TrainConfig config;
  for_each_key(config, [&](const char* name, const auto& member, const char*, bool) {
    using Value = std::decay_t<decltype(member)>;
    if constexpr (std::is_enum_v<Value>)
      if (key == name) found = &enum_names<Value>();
  });
  return *found;
}

nlohmann::json to_json(const TrainConfig& config) {
  nlohmann::json json = nlohmann::json::object();
  for_each_key(config, [&](const char* name, const auto& member, const char*, bool) {
    json[name] = value_to_json(member);
  });
  return json;
}

Result<bool> set_key(TrainConfig& config, std::string_view key, const nlohmann::json& value) {
  std::optional<Result<bool>> result;
  for_each_key(config, [&](const char* name, auto& member, const char*, bool) {
    if (key == name) result = assign(member, key, value);
  });
  if (result) return *result;
  return fail("unknown key '{}'{}; `assay list keys` shows all",
              printable(key),
              did_you_mean(key, key_names()));
}

Result<bool> set_key_text(TrainConfig& config, std::string_view key, std::string_view text) {
  // Text is JSON where that parses to a number or a truth value and the key is no string, else a
  // string.
  for (const ConfigKey& row : config_keys()) {
    if (row.name != key || row.type == "string" || !key_choices(key).empty()) continue;
    const nlohmann::json value = nlohmann::json::parse(text, nullptr, false);
    return set_key(config, key, value.is_discarded() ? nlohmann::json(std::string(text)) : value);
  }
  return set_key(config, key, nlohmann::json(std::string(text)));
}

double planted_share(const TrainConfig& config) {
  // A shorter wait is there for its own cost only.
  const bool both =
      std::min(config.planted_spin, config.planted_spin_more) >= config.planted_spin_less;
  return config.planted_spin + config.planted_spin_more - (both ? config.planted_spin_less : 0);
}

Result<TrainConfig> config_from_json(const nlohmann::json& json) {
  if (!json.is_object()) return fail("a training configuration is a JSON object");
  TrainConfig config;
  for (const auto& [key, value] : json.items())
    if (Result<bool> set = set_key(config, key, value); !set) return set.error();
  return config;
}

} // namespace assay
