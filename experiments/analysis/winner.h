// The best of many comparisons. It was chosen for its result, so the result is likely too good;
// `assay confirm` measures it again in fresh launches.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "experiments/analysis/report.h"

namespace assay {

// ln of the change of training time: of an evaluation end to end, else of its unit.
double effect_on_training(const Comparison& comparison);

// The comparison that is FASTER with the largest effect on training time; nothing where none is, or
// only one was measured. Quality that is harmed wins nothing.
std::optional<Winner> winner_of(const Report& report);

// The directory below results in which `assay confirm` measures.
std::string confirmation_directory(const std::string& results);

// Sets `confirmation` of the report of these results, or, where that directory is there and shows
// none, `confirmation_unread`. Paths in it begin below the results.
void read_confirmation(const std::string& results, Report& report);

// What a report says about its winner: that it is not confirmed, or what fresh launches showed. ""
// without a winner.
std::string winner_text(const Report& report);

} // namespace assay
