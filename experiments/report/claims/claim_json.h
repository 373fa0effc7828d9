// A claim and its result as JSON: the same object in report.json and in `assay claims --json`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "experiments/analysis/claims.h"

namespace assay {

// `cell`: its name, or "" (null) for a result without a comparison.
nlohmann::ordered_json claim_json(const ClaimResult& result, const std::string& cell);

} // namespace assay
