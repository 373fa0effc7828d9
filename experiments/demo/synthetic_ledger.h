// A ledger with known effects and a realistic noise, for `assay demo` and for tests of analysis,
// report and viewer: per launch a common drift and a contrast of its own, per visit heavy-tailed
// noise. A pure function of the plan, seed included.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/ledger/ledger.h"

namespace assay::synthetic {

struct SyntheticLevel {
  std::string name;
  double effect = 0;       // true ln(time / reference's time)
  double memory_ratio = 1; // peak bytes against the reference's
  bool gate_passes = true;
  std::string gate = "bitwise/weights";
  bool engaged = true;      // shows its own span
  bool same_work = false;   // operator histogram and copies of the reference
  int nan_in_launch = -1;   // retired in this launch: the loss became NaN
  double loss_shift = 0;    // of the final loss against the reference's, nats per token
  double loss_sd = 0;       // of that shift from seed to seed
  int nan_in_seed = 0;      // the loss launch (from 1) in which the loss became NaN; 0: none
  std::string summary = ""; // "": "level NAME"
};

struct SyntheticCell {
  std::string name = "ema_swap";
  std::string optimization = "ema_swap";
  std::string unit = "train_step";
  std::string equivalence = "bitwise";
  std::string config_json = R"({"device":"cpu","precision":"fp32","eval_interval":100})";
  std::vector<SyntheticLevel> levels; // the first is the reference
  std::vector<std::pair<std::string, std::string>> also_compare;
  std::string design = {};
  std::vector<ContrastRow> contrasts = {};
  double unit_ns = 15e6;
  double control_effect = 0;    // true effect of the A/A control: 0 unless the engine is broken
  double disturbed_share = 0;   // visits with steal beyond the limit
  double disturbed_b_share = 0; // the same, in variants other than the reference only
  int parity_launches = 1, timed_launches = 5, memory_launches = 3;
  bool steady = true;
  bool device_times = false;
  std::string summary = "a synthetic optimization";
  std::optional<double> noise, launch_sd; // instead of the plan's
  int traced_rounds = 0;                  // > 0: with one traced launch, the cell's last
  int loss_seeds = 0; // > 0: with so many loss launches, after all other launches of the plan
  double loss_margin = 0.02;
  std::string
      failed_attempt; // why the first attempt at the second timed launch failed; "": it did not
};

Identity synthetic_identity(); // a machine without a GPU

struct SyntheticPlan {
  std::string name = "synthetic";
  std::uint64_t seed = 1;
  int launches = 5, rounds = 40;
  double noise = 0.06;    // sd of a visit's log time
  double launch_sd = 0.0; // sd of a variant's own contrast by launch
  double tail_share = 0.02, tail_size = 0.5;
  double sesoi = 0.01;
  bool memory_parts = false; // memory launches say what the bytes are
  std::vector<SyntheticCell> cells;
  std::vector<ClaimRow> claims;
  Identity identity = synthetic_identity();
};

LedgerData synthetic_ledger(const SyntheticPlan& plan);
// Into a new results directory by the ledger's own writer, launch by launch, as the engine does.
// Launches are numbered from 1 without a gap. Throws Failure.
void store(const LedgerData& data, const std::string& directory);

} // namespace assay::synthetic
