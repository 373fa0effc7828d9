// The screen "Telemetry" as plain data: every requested series of both sides, with what the
// machine refused.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "ui/model/results/verdict_model.h"
#include "ui/model/workspace.h"

namespace assay {

struct TelemetrySide {
  const TelemetrySeries* series = nullptr; // null: this trace does not have the metric
  std::string words;                       // "mean 612, 5-95 % 590-650" or why there are no samples
};

struct TelemetryRowModel {
  std::string name, source;
  std::array<TelemetrySide, 2> sides;
  bool plotted = false; // some side has samples
};

struct TelemetryModel {
  std::vector<TelemetryRowModel> rows; // plotted ones first
  std::array<std::string, 2> variants;
  double first_s = 0, last_s = 1; // shown, after each trace's first event
  std::optional<Notice> notice;
  bool failed = false;
};

TelemetryModel telemetry_model(const Workspace& workspace);
nlohmann::ordered_json to_json(const TelemetryModel& model);

// A polyline's band: minimum and maximum of each pixel column. A gap in the samples (above
// kGapFactor times their median distance) ends one strip and begins another.
inline constexpr double kGapFactor = 2.5;
struct Strip {
  std::vector<double> x, low, high;
};
std::vector<Strip> strips(const TelemetrySeries& series,
                          std::int64_t spacing_ns,
                          std::int64_t origin_ns,
                          double from_s,
                          double to_s,
                          int columns);

} // namespace assay
