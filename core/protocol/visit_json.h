// A visit and a metric as both sides write and read them (docs/protocol.md).
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "core/ledger/ledger.h"

namespace assay {

// `variant`: its index in the launch. Values that are not known are absent.
nlohmann::json visit_to_json(std::size_t variant, const VisitRow& visit);

// Launch, round and variant are the caller's to fill in. Throws nlohmann's exception for a missing
// or mistyped field, Failure for a visit that cannot be.
VisitRow visit_from_json(const nlohmann::json& visit);

// One entry of "metrics". `variant` null: of the launch as a whole.
nlohmann::json metric_json(nlohmann::json variant,
                           std::string path,
                           std::string unit,
                           double value,
                           std::string detail = "");

} // namespace assay
