#include "app/assay/output/json_output.h"

#include <fmt/format.h>

namespace assay::cli {

void print_json(const nlohmann::json& body) {
  nlohmann::ordered_json out{{"schema_version", kOutputSchema}};
  for (const auto& [key, value] : body.items()) out[key] = value;
  // Names of other people's results need not be UTF-8.
  fmt::print("{}\n", out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

} // namespace assay::cli
