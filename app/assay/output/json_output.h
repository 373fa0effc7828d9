// The form of what `--json` prints (docs/report-schema.md): one object with a schema version.
#pragma once

#include <nlohmann/json.hpp>

namespace assay::cli {

inline constexpr int kOutputSchema = 1;

// Prints `body`, an object, behind "schema_version".
void print_json(const nlohmann::json& body);

} // namespace assay::cli
