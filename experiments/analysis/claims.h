// Claims: a published gain against the measured one, in the claim's own metric.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/ledger/ledger.h"
#include "core/statistics/statistics.h"
#include "experiments/evidence/verdict.h"

namespace assay {

enum class ClaimMetric {
  StepTime,
  UnitTime,
  Throughput,
  PeakMemory,
  FinalLoss,
  SecondsPerParameter, // that a unit saves
  EmaMemory,           // peak memory saved, as a share of weights, their average and one copy
  UntrainedLoss        // the baseline's final loss as a share of ln(vocabulary)
};
struct ClaimMetricRow {
  ClaimMetric metric;
  const char *name, *words; // in a claims file; "step time"
  bool more;                // a gain is more of it, not less
};
const std::vector<ClaimMetricRow>& claim_metrics();
bool is_time(ClaimMetric metric);
bool is_share_of_time(ClaimMetric metric); // gains that theta_of() turns into a change of time
bool is_memory(ClaimMetric metric);
bool is_loss(ClaimMetric metric);
// In place of a metric: what a source recommends without saying what it brings. Never judged.
inline constexpr const char* kSetting = "setting";
// Nothing for a metric that this build cannot measure.
std::optional<ClaimMetric> claim_metric(const std::string& name);

// Gain in the claim's metric for theta = ln(candidate / baseline): throughput 1/ratio - 1,
// otherwise 1 - ratio (share of time, bytes or loss saved). Falls as theta grows. For UntrainedLoss
// theta is a loss in nats and stays as it is.
double gain_of(ClaimMetric metric, double theta);
Interval gain_of(ClaimMetric metric, const Interval& theta);
// Its inverse; needs gain > -1 for throughput, gain < 1 otherwise.
double theta_of(ClaimMetric metric, double gain);
// What a gain_of() is multiplied by to become one in the metric: 1 but for metrics that count the
// model's parameters or vocabulary. a_ns, a_bytes: the baseline's time of a unit, its peak memory.
// Nothing where the model's size is not known from the cell's configuration.
std::optional<double>
gain_scale(ClaimMetric metric, const CellRow& cell, double a_ns, double a_bytes);
// The smallest effect of interest, a share of time or bytes, as a gain in the metric.
double sesoi_gain(ClaimMetric metric, double sesoi);

struct ClaimDecision {
  ClaimState state = ClaimState::Undecided;
  bool exceeds = false; // the whole interval is above the claimed range
};
// The claim rule for a gain with claimed [lo, hi] and measured interval [l, u]:
// OPPOSITE u < -s, lo >= 0; CONFIRMED l >= lo; REFUTED u < min(lo, s); SHORTFALL 0 < l, u < lo;
// CONSISTENT l > s, u >= lo; else UNDECIDED.
// A claim without a figure, [0, infinity], is one of at least the smallest effect of interest:
// lo = s = least_claimed().
double least_claimed(const Interval& claimed, double sesoi);
ClaimDecision decide_claim(const Interval& claimed, const Interval& measured, double sesoi);

struct ClaimResult {
  ClaimRow claim;
  // The comparison that tests it: indices into Report::cells and CellReport::comparisons;
  // nothing when no cell of the matrix has both levels.
  std::optional<std::size_t> cell, comparison;
  ClaimState state = ClaimState::NotTested;
  bool exceeds = false, provisional = false;
  Reason reason;              // empty where it is simply confirmed
  std::optional<double> gain; // measured, in the claim's metric
  std::optional<Interval> gain_95, gain_judged;
  bool end_to_end = false; // measured on another unit and converted to the whole step
};

// Its conditions are met and something tests it: it is judged, if perhaps undecided.
bool applies(const ClaimResult& result);

inline constexpr const char* kBoardKey = "gpu"; // of `requires`: a part of the board's name
// Of `requires`: {"min":…, "max":…}, the share of padding in the baseline's rows, which only a
// result shows.
inline constexpr const char* kPaddingKey = "padding_share";

// What of `requires_json` a configuration, that of a comparison's baseline, does not meet
// ("precision is fp32, the claim needs bf16"), or "". Keys are TrainConfig keys, or kBoardKey,
// which a CUDA cell that has not run does not fail; values are scalars, lists of scalars, or
// {"min":…, "max":…}.
std::string
unmet_conditions(const ClaimRow& claim, const std::string& config_json, const std::string& gpu);
// "55.4 % of the baseline's positions are padding, the claim needs 5 to 15 %", or "".
std::string unmet_padding(const ClaimRow& claim, double padding_share);
// What it needs instead: the key of each unmet condition, and the values that would meet it.
struct ClaimNeed {
  std::string key;
  std::vector<std::string> values;
};
std::vector<ClaimNeed>
unmet_needs(const ClaimRow& claim, const std::string& config_json, const std::string& gpu);

// A claim names two levels, or two sets of keys: then `from` and `to` are JSON objects of the same
// keys, {"precision":"bf16"}, and `optimization` is empty in a claims file, in a plan the first
// cell that it concerns.
bool names_keys(const ClaimRow& claim);
// "varlen, mask_dense -> varlen", "precision = bf16 -> precision = fp8".
std::string claim_sides_text(const ClaimRow& claim);

// How the comparisons of keys in a plan ([cell.variants]) stand to a claim about keys.
struct KeyClaimFit {
  const CellRow* concerned = nullptr; // the first in which a key of the claim differs; or nullptr
  bool tested = false;                // a cell compares the two sets
  std::string miss; // why the first that it concerns does not: "cell 'x', b: lr differs too"
};
KeyClaimFit key_claim_fit(const LedgerData& plan, const ClaimRow& claim);
// Whether two resolved configurations differ in the keys of the claim and in no others, with the
// claim's values; "" where they do, else why not.
std::string key_mismatch(const ClaimRow& claim, const VariantRow& from, const VariantRow& to);

// What a condition of a claim allows, in words: "bf16 or fp8".
std::string condition_text(const nlohmann::json& allowed);

} // namespace assay
