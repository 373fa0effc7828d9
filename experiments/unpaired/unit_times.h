// The time of one variant alone, launch by launch: what two runs that were not interleaved have in
// common. Which launches and visits count is decided as for pairs (evidence/pairs.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/evidence/cell_view.h"

namespace assay {

struct UnitTimes {
  std::vector<double> by_launch;         // median of ln(ns of a unit) over the visits that count
  std::optional<double> tokens_per_unit; // over all timed visits; nothing without one
};
UnitTimes unit_times(const CellView& cell, const VariantRow& variant);

// "timed launch 2": a launch of `first` whose counted visits took the same nanoseconds as those of
// one of `second`, so that the two are copies of one measurement; "" where none is.
std::string copied_launch(const CellView& first, const CellView& second);

} // namespace assay
