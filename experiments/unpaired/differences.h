// What two runs of a cell do not share: keys that make them incomparable, and conditions that may
// be the cause of a difference between their times.
#pragma once

#include <string>
#include <vector>

#include "experiments/analysis/report.h"
#include "experiments/evidence/cell_view.h"

namespace assay {

// "seq_len: 64 in the first, 128 in the second": at most three keys in which the configurations
// train another way, or "". Not among them: keys that say where and on which data a run trains. A
// key that one of the two does not store has this build's default, for the build that stored none
// had no choice.
std::string config_difference(const std::string& first_json, const std::string& second_json);

struct Cause {
  std::string what, first, second; // "driver", "550.54", "580.65"

  bool operator==(const Cause&) const = default;
};

// A cell of a run, with what the whole run says of its clocks.
struct RunOfCell {
  const CellView* cell;
  const CellReport* report;
  const std::optional<Clocks>* clocks;
};
// Machine, board, driver, LibTorch, threads, clocks, data, seed …, of the launches that count.
// Builds are left out: they are what such a comparison is about.
std::vector<Cause> possible_causes(const RunOfCell& first, const RunOfCell& second);

} // namespace assay
