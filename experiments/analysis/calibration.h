// Does this machine see what is there and nothing else? `assay calibrate` measures an A/A
// comparison and a planted slow-down; reports of the machine cite what they showed.
#pragma once

#include <string>
#include <string_view>

#include "experiments/analysis/report.h"

namespace assay {

// The two cells of the matrix that it measures (experiments/plan/calibration_matrix.h).
inline constexpr const char* kAaCell = "aa";
inline constexpr const char* kPlantedCell = "planted";

// As of the A/A control of a launch: two such intervals alarm a good machine once in a hundred
// calibrations.
inline constexpr double kCalibrationAlarm = 0.005;

enum class CalibrationState {
  Passed,    // NO_EFFECT where nothing is, SLOWER where a wait is planted
  Undecided, // no alarm, but a verdict is missing
  Alarm,     // an interval at kCalibrationAlarm excludes what is there
};
// The constants of docs/report-schema.md: "passed", "undecided", "alarm".
std::string_view to_string(CalibrationState state);

CalibrationState calibration_state(const CalibrationRow& row);

// Whether a report is of that matrix.
bool is_calibration(const Report& report);

// From the results of that matrix. The error says what is missing.
Result<CalibrationRow> calibration_row(const LedgerData& data);

// The newest calibration of the one machine and device that measured all timed launches.
std::optional<CalibrationRow> cited_calibration(const LedgerData& data);

// "this machine finds 2 %, and no effect where there is none", "undecided: …", "ALARM: …"
std::string calibration_conclusion(const CalibrationRow& row);
// The same with the figures, the launches and the date.
std::string calibration_text(const CalibrationRow& row);

// The directory below results in which `assay calibrate` measures.
std::string calibration_directory(const std::string& results);

} // namespace assay
