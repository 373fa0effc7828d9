// Sentences about a whole report: several cells in one line. `wording` has those of one cell.
#pragma once

#include <string>
#include <vector>

#include "experiments/analysis/report.h"

namespace assay {

// One sentence for the top of a report: how many comparisons are faster, slower, …
std::string summary_text(const Report& report);
// What the plan still owes, one line for all cells that owe the same: "norms and rotary (2 cells):
// parity launch, 8 of 8 timed launches".
std::vector<std::string> missing_lines(const Report& report);
// Alarms that several cells or comparisons share take one line: "norms and rotary: timed launch 1
// (attempt 1) …", "ema (a -> b, a -> c): 1 of 32 pairs is excluded …".
std::vector<std::string> alarm_lines(const Report& report);
// Why a roofline is missing or incomplete, each reason once, with its cells.
std::vector<std::string> speed_notes(const Report& report);

// Notes of a plan, those that cells share once: "cells 'a', 'b': delta_form stays at chunked: …".
std::vector<std::string> note_lines(const std::vector<NoteRow>& notes);
// "ema_swap: 3 of 60 pairs …"
std::string alarm_text(const Report& report, const Alarm& alarm);

} // namespace assay
