// The words and numbers that people read. Command line, HTML page and viewer call these, so that
// all three print the same. Effects are shown as the change of time in %, intervals likewise; ASCII
// only, except the minus-free "·".
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/analysis/report.h"

namespace assay {

std::string share_text(double share);                          // 0.0123 -> "1.23 %"
std::string change_text(double share);                         // signed: "-6.10 %", "+0.02 %"
std::string effect_text(const Estimate& log);                  // change of time or bytes: "-6.10 %"
std::string interval_text(const std::optional<Interval>& log); // "[-7.01, -5.22] %", or "-"
// With the interval that verdicts read: "-6.10 % [-7.01, -5.22] %"; "-6.10 % (1 launch, no
// interval)".
std::string judged_text(const Estimate& log);
// "-6.10 %, 95 % interval [-6.90, -5.30] %"
std::string at_95_text(const Estimate& log);
// For a column beside that of the interval: "-" where there is no interval.
std::string table_effect_text(const std::optional<Effect>& effect);
std::string unit_text(const CellRow& cell);          // "train step"
std::string launch_count_text(std::size_t launches); // "1 launch", "5 launches"
std::string launch_text(const LaunchRow& launch);    // "timed 3", "timed 3, attempt 2"
inline constexpr std::size_t kShortBuild = 12;       // letters of a build id that people compare
// "2 cores, 1 compute thread", or "2 cores, compute threads by variant".
std::string cores_text(const Identity& identity, bool threads_vary);
std::string shares_text(const Interval& shares);   // the same of gains themselves
std::string gain_range_text(double lo, double hi); // "+10 to +15 %", "+10 % or more"
// Gains in a claim's metric: shares, or nanoseconds where the metric counts seconds.
std::string gain_text(ClaimMetric metric, double gain);
std::string gains_text(ClaimMetric metric, const Interval& gains);
std::string claimed_range_text(ClaimMetric metric, const Interval& claimed);

// Level of the interval that every verdict of the report reads: "99.44 %".
std::string interval_level_text(const Report& report); // "judged" where cells differ in it

// "97.1 -> 91.2 ms": the baseline's median time of a unit, and the candidate's by the effect.
std::string unit_time_text(const Effect& effect);
// "-20.1 %"; "0 %" of every change that rounds to it; "-" when not measured.
std::string memory_change_text(const std::optional<MemoryEffect>& memory);
// The same, and "-20.1 % [-21, -19] %" when launches differ, "-" when not measured.
std::string memory_text(const std::optional<MemoryEffect>& memory);
std::string mde_text(const std::optional<Effect>& effect); // "0.81 %", or "-"

// "FASTER", "NO_EFFECT", or the validity when it is not OK; HARMED when training is.
std::string verdict_word(const Verdict& verdict);
std::string contrast_word(ContrastState state);         // "add up"
std::string contrast_kind_text(const ContrastRow& row); // "main effect"
// "+10 to +15 % throughput"
std::string claimed_text(const ClaimRow& claim);
std::string claimed_stages_text(const ClaimRow& claim); // "forward, backward"
// "+14.0 % [+13.0, +15.1] %", or "-"
std::string gain_text(const ClaimResult& result);
// "measured +14.0 % [+13.0, +15.1] %", or "not measured"
std::string measured_text(const ClaimResult& result);
// "CONFIRMED (exceeds, provisional)"
std::string claim_state_text(const ClaimResult& result);
// "other work disturbed 4 of 5 launches"
std::string disturbed_text(int disturbed, int launches);
// "5 of 5 launches"; "9 launches of 3 planned, 8 usable" where merging added or disturbances took
// some; "5 of 5 launches, 3 or 5 usable (depends on the comparison)".
std::string launches_text(const CellReport& cell);
std::string control_launches_text(const CellReport& cell); // of its A/A comparison
// "A/A control +0.12 %, 95 % interval [-0.40, +0.63] %", or why there is none
std::string control_text(const CellReport& cell);
// "mask_dense -> varlen": baseline, then candidate
std::string comparison_text(const Comparison& comparison);
// "185 -> 170 ms per train step (medians of its pairs)", or "" without a counted pair.
std::string unit_line(const CellReport& cell, const Comparison& comparison);
// The effect with disturbed pairs included, or "" where no pair is excluded.
std::string all_pairs_line(const Comparison& comparison);
// How much of the time of a token more ranks save, 1 for perfect scaling; needs times_ranks.
double scaling_efficiency(const Comparison& comparison, double log_ratio);
// "efficiency of 2 times the ranks: 89.3 % [88.5, 90.2] % of perfect scaling", or "".
std::string scaling_line(const Comparison& comparison);
// "waits for the loader: 12.3 ms per step -> never (blocked, mean, warm-up included)", or ""
std::string data_wait_line(const Comparison& comparison);
std::string tokens_twice_line(const Comparison& comparison);
// "end to end -0.02 % […] of training time: …", or "".
std::string end_to_end_line(const CellReport& cell, const Comparison& comparison);
// The loss test in words where the verdict's reasons do not contain it, or "".
std::string loss_note(const Comparison& comparison);
// Whether a short report shows the comparison in full: it is decided, or something is wrong.
bool needs_details(const Verdict& verdict);
// The same, or losses over seeds that are proved equivalent, whatever the times say.
bool shows_details(const Comparison& comparison);
// No launch of it gave a pair yet, and none was given up.
bool is_unmeasured(const Comparison& comparison);
// The same, and no gate either: pages leave out its details, for its row in the table says all.
inline bool is_untouched(const Comparison& comparison) {
  return is_unmeasured(comparison) && comparison.evidence.gates.empty();
}
// A claim that only waits for the first launches of its comparison.
bool is_unmeasured(const Report& report, const ClaimResult& result);
// "2 timed launches were measured again; …", or ""
std::string repeated_line(const CellReport& cell);
// Headings of a report.
inline constexpr const char* kShapeWarnings = "Shape warnings";
inline constexpr const char* kSourceErrors = "Arithmetic errors in the claims' sources";
// The last line of a report.
inline constexpr const char* kWordsLine = "Words: `assay help terms`";

} // namespace assay
