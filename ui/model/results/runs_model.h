// The screen "Runs" beside the verdict table: every launch of every cell with its state, the card
// of the one that is selected, and the report's sections of the whole run.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ui/model/results/verdict_model.h"

namespace assay {

struct Results;

struct LaunchMark {
  std::size_t launch = 0; // index into Report::launches
  std::string label;      // "timed 3"
  std::string state;      // "complete"
  std::string glyph;      // one sign
  Tone tone = Tone::Neutral;
};

struct LaunchGridRow {
  std::string cell;
  std::vector<LaunchMark> marks;
  std::string owed; // what the plan still needs, or ""
};

std::vector<LaunchGridRow> launch_grid(const Results& results);
// Lines about one launch: state, reason, machine, clocks, how to repeat it.
std::vector<DetailLine> launch_card(const Results& results, std::size_t launch);

// The page's findings, the run, then every section of the report.
std::vector<Section> run_sections(const Report& report);
// The index of the section with this id, else of the launches; 0 where there is neither.
std::size_t find_section(const Results& results, std::string_view id);
inline constexpr std::string_view kLaunches = "launches"; // drawn as grid and card
// "Events (12)": its name in the list of sections.
std::string section_name(const Section& section);

} // namespace assay
