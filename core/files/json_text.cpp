#include "core/files/json_text.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/text.h"

namespace assay {

namespace {

void append_digits(std::string& out, std::uint64_t value) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  out.append(digits, static_cast<std::size_t>(end - digits));
}

} // namespace

void append_integer(std::string& out, std::int64_t value) {
  if (value < 0) out += '-';
  append_digits(
      out, value < 0 ? ~static_cast<std::uint64_t>(value) + 1 : static_cast<std::uint64_t>(value));
}

void append_number(std::string& out, double value) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  char digits[40];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  out.append(digits, static_cast<std::size_t>(end - digits));
}

void append_microseconds(std::string& out, std::int64_t ns) {
  if (ns < 0) out += '-';
  const auto size = ns < 0 ? ~static_cast<std::uint64_t>(ns) + 1 : static_cast<std::uint64_t>(ns);
  append_digits(out, size / 1000);
  const auto rest = static_cast<unsigned>(size % 1000);
  const char decimals[] = {'.',
                           static_cast<char>('0' + rest / 100),
                           static_cast<char>('0' + rest / 10 % 10),
                           static_cast<char>('0' + rest % 10)};
  out.append(decimals, sizeof decimals);
}

std::string escape_json(std::string_view text) {
  std::string marked; // control bytes escaped before printable() would drop them
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      marked += '\\';
      marked += c;
    } else if (byte < 0x20 || byte == 0x7F) {
      marked += fmt::format("\\u{:04x}", byte);
    } else {
      marked += c;
    }
  }
  return printable(marked);
}

std::string short_json(const nlohmann::json& value) {
  constexpr std::size_t kLongest = 60;
  const std::string text =
      printable(value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  return text.size() <= kLongest ? text : printable(text.substr(0, kLongest)) + "…";
}

} // namespace assay
