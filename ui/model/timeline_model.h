// The screen "Timeline" in words: which steps are drawn above each other, what is selected, its
// partner.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "ui/model/results/verdict_model.h"

namespace assay {

struct Workspace;
struct Selection;

struct EventWords { // of one event
  std::string name, source, step;
  double start_ns = 0, duration_ns = 0; // after the anchor
  std::string stage;                    // its class for kernels and operators
  std::string launch; // of kernels: "launched by cudaLaunchKernel 12.3 us before", or ""
};

struct TimelineSideModel {
  std::string variant, step; // "step 12 of 40, round 3, counted"
  double step_ns = 0;
  bool loaded = false, loading = false;
  std::string why_none;
  std::vector<std::string> tracks;
  std::vector<std::string> only_here; // roles that the other trace lacks
  std::size_t events = 0;
  std::vector<std::string> failed_checks;
  std::vector<std::string> telemetry; // titles of the strips under the lanes
};

struct TimelineModel {
  std::array<TimelineSideModel, 2> sides;
  std::string align;
  bool linked = true, ghost = false;
  double from_ns = 0, span_ns = 0;     // of A
  std::optional<double> difference_ns; // B's step - A's step, of the two shown
  std::optional<EventWords> selected, partner;
  std::string partner_words;    // "second of 4 in both; 12.1 us (-3.2 us)"
  std::optional<Notice> notice; // neither side has a trace
};

TimelineModel timeline_model(const Workspace& workspace);
nlohmann::ordered_json to_json(const TimelineModel& model);

EventWords words_of(const Workspace& workspace, const Selection& selection);
std::string partner_words(const Workspace& workspace, const Selection& selection);

} // namespace assay
