#include "core/json_fault.h"

#include <fmt/format.h>

#include <string_view>

#include "core/text.h"

namespace assay {

std::string json_fault(const nlohmann::json::exception& error) {
  if (const auto* parse = dynamic_cast<const nlohmann::json::parse_error*>(&error))
    return fmt::format("malformed JSON at byte {}", parse->byte);
  const std::string_view text =
      error.what(); // "[json.exception.out_of_range.403] key 'x' not found"
  const std::size_t end = text.find("] ");
  return printable(text.substr(end == std::string_view::npos ? 0 : end + 2));
}

} // namespace assay
