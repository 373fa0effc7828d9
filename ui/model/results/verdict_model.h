// The verdict screen as plain data: computed from a ledger by experiments/analysis,
// drawn by verdict_table and details_panel, written by --dump-model. Texts are analysis' own; this
// file only arranges them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/ledger/ledger.h"
#include "core/result.h"
#include "experiments/evidence/verdict.h"
#include "experiments/report/section.h"

namespace assay {

// An effect on the axis "change of the measured time, in percent of the reference"; negative is
// faster.
struct IntervalPicture {
  double point = 0, lo = 0, hi = 0;
  std::optional<double> claim_lo, claim_hi; // the claimed range on the same axis
  std::optional<double> band_lo, band_hi;   // interval of the A/A control
  double sesoi = 0;                         // smallest effect of interest, both sides of zero
};

struct DetailLine {
  std::string label, text;
  Tone tone = Tone::Neutral;
};

struct LaunchPoint {
  std::string label; // "launch 1"
  double value = 0, lo = 0, hi = 0;
};

struct VerdictRowModel {
  std::string cell, comparison, effect, mde, memory;
  std::string badge;    // the verdict in a word or two
  std::string headline; // the verdict in a sentence
  Tone tone = Tone::Neutral;
  std::optional<IntervalPicture> interval; // none without enough launches
  std::vector<Section> details;
  std::vector<LaunchPoint> launches;
};

struct Notice { // in place of rows: the state, and the next action
  std::string title, explanation, action;
};

struct VerdictModel {
  std::string name;                // of the plan
  std::string interval_level;      // of the intervals that the verdicts read: "99.44 %"
  std::string summary;             // verdicts by kind, and what is missing
  std::string provenance;          // the report's section "Run" in one line
  std::vector<std::string> alarms; // what to know before believing the table
  std::vector<VerdictRowModel> rows;
  double axis = 1; // the interval axis runs from -axis to +axis percent
  std::optional<Notice> notice;
  bool failed = false; // the notice is an error
};

VerdictModel verdict_model(const LedgerData& data, const Report& report);
VerdictModel verdict_model(const Result<LedgerData>& ledger); // analyzes it first
// The error or the empty state of results that cannot be read.
Notice unreadable(const std::string& message);

// The axis "change of time in percent" for an effect that analysis estimated.
std::optional<IntervalPicture> picture_of(const Estimate& log_ratio);

// Half-width of an axis that shows every row: intervals whole, claims as far as three times that.
double axis_of(const std::vector<VerdictRowModel>& rows);

} // namespace assay
