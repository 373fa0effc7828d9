// The training losses of the screen "Compare", as plain data: curves, difference and the test's
// words are analysis' own (loss.h, loss_lines.h); this file arranges them and chooses axes. Losses
// are nats per token, x is the optimizer step.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiments/analysis/report.h"
#include "experiments/evidence/loss/loss_lines.h"

namespace assay {

struct LossLine {
  std::vector<double> step, loss; // a loss that is not finite interrupts the line
};

struct LossSide {
  std::string variant;
  std::vector<std::uint64_t> seeds; // of each curve
  std::vector<LossLine> curves;
  LossLine mean; // of the seeds
};

struct LossModel {
  std::array<LossSide, 2> sides; // baseline, candidate
  LossLine difference;           // candidate - baseline at equal seeds, mean
  std::string badge, words;      // the quality, and the test as the report prints it
  Tone tone = Tone::Neutral;
  double steps = 0, judged_from = 0; // x: the end; from where losses are final
  double margin = 0;                 // nats per token, both sides of 0; 0: none was declared
  LossRule rule = LossRule::Equivalence;
  std::optional<double> final_difference; // mean over the seeds
  std::optional<Interval> interval;       // of final_difference
  std::string interval_level;             // "90 %"
  LossRange losses, differences;
  std::string why_none; // no curve, or ""
};

// Nothing where the plan asks for no loss launches.
std::optional<LossModel> loss_model(const CellReport& cell, const Comparison& comparison);
nlohmann::ordered_json to_json(const LossModel& model);

} // namespace assay
