// A comparison of two runs for people and for programs (docs/report-schema.md, `compare`).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "experiments/report/render.h"
#include "experiments/unpaired/unpaired.h"

namespace assay {

// `cell`: only this one; "": all. The level of the intervals stays that of all cells.
std::string
render_table(const UnpairedReport& report, const TableStyle& style, const std::string& cell = "");
nlohmann::json to_json(const UnpairedReport& report, const std::string& cell = "");

} // namespace assay
