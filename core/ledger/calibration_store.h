// The newest calibration of each machine and device that a person has measured: one JSON file, from
// which every later run copies those of its own machine into its ledger.
#pragma once

#include <string>
#include <vector>

#include "core/ledger/ledger.h"
#include "core/result.h"

namespace assay {

// $XDG_DATA_HOME/assay/calibration.json, or below ~/.local/share; "" without a home.
std::string calibration_store_path();

// None where there is no file. The error names the file, what is wrong with it and what to do.
Result<std::vector<CalibrationRow>> read_calibration_store(const std::string& path);

// Beside the rows of other machines and devices, in the place of an older one of the same. Throws
// bad input where the file cannot be read or written.
void store_calibration(const std::string& path, const CalibrationRow& row);

} // namespace assay
