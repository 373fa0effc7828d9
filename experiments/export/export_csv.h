// CSV of traces, one file per table: steps.csv, stages.csv (the tiling), device.csv (kernels,
// copies, sets), operators.csv (LibTorch) and telemetry.csv. Columns: docs/exports.md.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/export/export_chrome.h"

namespace assay {

// `traces`: one path, or the baseline's and the candidate's, whose rows come second; the column
// "variant" distinguishes them. `directory` is made if it is missing; files of these names in it
// are replaced. Throws Failure. The summary's events are rows.
ExportSummary export_csv(const std::vector<std::string>& traces,
                         const std::optional<StepWindow>& steps,
                         const std::string& directory);

} // namespace assay
