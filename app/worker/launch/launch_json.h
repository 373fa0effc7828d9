// What a launch tells the engine of its visits, as JSON (docs/protocol.md).
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "app/worker/launch/visit.h"
#include "core/ledger/ledger.h"

namespace assay::worker {

nlohmann::json visit_to_json(std::size_t variant,
                             std::size_t position,
                             const VisitResult& visit,
                             const Covariates& covariates);

// One entry of "metrics". `variant` null: of the launch as a whole.
nlohmann::json metric(nlohmann::json variant,
                      std::string path,
                      std::string unit,
                      double value,
                      std::string detail = "");

} // namespace assay::worker
