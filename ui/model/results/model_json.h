// The verdict table as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>

#include "ui/model/results/verdict_model.h"

namespace assay {

nlohmann::ordered_json to_json(const VerdictModel& model);

} // namespace assay
