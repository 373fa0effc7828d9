// The screen "Runs" beside the verdict table: every launch of every cell with its state, and the
// card of the one that is selected.
#pragma once

#include <string>
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

} // namespace assay
