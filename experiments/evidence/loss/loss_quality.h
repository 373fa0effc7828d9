// The quality side of a row that may change the loss: final losses of both sides at equal seeds
// against a margin that was declared before any data (docs/statistics.md, "Loss").
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/statistics/tost.h"
#include "experiments/evidence/verdict.h"

namespace assay {

// Fewest pairs that can decide: below it the normality that a t test assumes is pure faith.
inline constexpr std::size_t kFewestSeeds = 4;

// One seed: same initialization and data order on both sides, run to the same end step.
struct SeedLoss {
  std::uint64_t seed = 0;
  double a = 0, b = 0; // final loss in nats per token: mean of the last 5 % of evaluations
};

enum class LossRule {
  Equivalence,   // statistical rows: neither worse nor better by the margin
  NonInferiority // objective rows: not worse by the margin; better is welcome
};

struct LossQuality {
  Quality quality = Quality::Unknown; // Equivalent, Unknown or Harmed
  std::string reason;                 // with figures, for people
  double margin = 0;                  // nats per token; 0: none was declared
  std::vector<SeedLoss> seeds;
  std::optional<Tost> test;        // of b - a over the seeds; needs a margin and 2 finite pairs
  std::optional<int> seeds_needed; // for EQUIVALENT with probability `power`, true difference 0
};

// HARMED: some loss of the candidate alone is NaN or infinite, or the whole interval of the mean
// difference is at or above +margin. EQUIVALENT: it is inside the margin (its upper end, for
// non-inferiority). UNKNOWN: all else, and always without a margin, with fewer than kFewestSeeds
// pairs, or where a loss of the baseline is not finite. `margin` <= 0 counts as none.
LossQuality judge_loss(std::vector<SeedLoss> seeds,
                       std::optional<double> margin,
                       LossRule rule,
                       double power = 0.8,
                       double alpha = kTostAlpha);

} // namespace assay
