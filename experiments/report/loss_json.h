// Loss launches in report.json (docs/report-schema.md, "loss").
#pragma once

#include <nlohmann/json.hpp>

#include "experiments/analysis/report.h"

namespace assay {

// Without the estimate of the ratio.
nlohmann::ordered_json loss_test_json(const LossTest& test);
nlohmann::ordered_json loss_curves_json(const CellReport& cell);

} // namespace assay
