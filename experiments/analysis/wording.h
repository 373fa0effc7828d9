// The words and numbers that people read. Command line, HTML page and viewer call these, so that
// they say the same. Effects are shown as the change of time in %, intervals likewise; ASCII only,
// except the minus-free "·".
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
std::string shares_text(const Interval& shares);               // the same of gains themselves
std::string gain_range_text(double lo, double hi);             // "+10 to +15 %", "+10 % or more"
// Gains in a claim's metric: shares, or nanoseconds where the metric counts seconds.
std::string gain_text(ClaimMetric metric, double gain);
std::string gains_text(ClaimMetric metric, const Interval& gains);
std::string claimed_range_text(ClaimMetric metric, const Interval& claimed);

// "97.1 -> 91.2 ms": A's median time of a unit, and B's by the effect; one unit for both.
std::string unit_time_text(const Effect& effect);
// "-20.1 %", "-20.1 % [-21, -19] %" when launches differ, "-" when not measured.
std::string memory_text(const std::optional<MemoryEffect>& memory);
std::string mde_text(const std::optional<Effect>& effect); // "0.81 %", or "-"

// "FASTER", "NO_EFFECT", or the validity when it is not OK; HARMED when training is.
std::string verdict_word(const Verdict& verdict);
// "+10 to +15 % throughput"
std::string claimed_text(const ClaimRow& claim);
// "measured +14.0 % [+13.0, +15.1] %", or "not measured"
std::string measured_text(const ClaimResult& result);
// "CONFIRMED (exceeds, provisional)"
std::string claim_state_text(const ClaimResult& result);
// "5 of 5 launches"; "9 launches of 3 planned, effects of 8" where merging added or disturbances
// took some.
std::string launches_text(const CellReport& cell);
// "A/A control +0.12 % [-0.40, +0.63] %", or why there is none
std::string control_text(const CellReport& cell);
// "varlen against mask_dense"
std::string comparison_text(const Comparison& comparison);
// The loss test in words where the verdict's reasons do not tell it, or "".
std::string loss_note(const Comparison& comparison);
// "varlen, mask_dense"; "ema_swap, the train step"
std::string speed_name_text(const CellReport& cell, const VariantSpeed& speed);
// Why something of the speed of light is not known, each reason once, with its cells.
std::vector<std::string> speed_notes(const Report& report);
// Headings of a report, and the line that stands for errors of the sources on a terminal, where they
// would push the verdicts out of sight; "" for none.
inline constexpr const char* kShapeWarnings = "Shape warnings";
inline constexpr const char* kSourceErrors = "Arithmetic errors in the sources";
std::string source_errors_line(std::size_t count);
// One sentence for the top of a report: how many comparisons are faster, slower, …
std::string summary_text(const Report& report);

} // namespace assay
