// Rules and marks of launches that the engine follows and that judgements read.
#pragma once

#include <cstdint>

namespace assay {

// Metric of a launch: which data it read; its detail is the value (docs/ledger.md).
inline constexpr const char* kDataFingerprintMetric = "data/fingerprint";

// What to do where results cannot be continued and are to be kept.
inline constexpr const char* kStartAnew = "move the old results away, or name another directory "
                                          "(`assay run` has --fork and --out for that)";

// Why a launch ended whose engine is gone.
inline constexpr const char* kEngineStopped = "the engine was stopped before the launch ended";

// Whether a timed launch that was cut off is partial and may count: at least half of the planned
// rounds, and one.
constexpr bool enough_rounds(int rounds, int planned) {
  return rounds > 0 && 2 * rounds >= planned;
}

// Training key `seed` of a timed or loss launch. `cell_seed`: that of the cell's configuration;
// `index`: of the launch. Launches of a cell differ in initial weights and documents.
constexpr std::uint64_t launch_seed(std::uint64_t cell_seed, int index) {
  return cell_seed + static_cast<std::uint64_t>(index);
}

// The counted steps of a visit of unit "token": at least 1, and nearest to the tokens that the
// baseline's visit takes in `steps`. `baseline`, `own`: tokens of one step.
constexpr int steps_of_equal_tokens(std::int64_t baseline, std::int64_t own, int steps) {
  const std::int64_t nearest = (2 * baseline * steps + own) / (2 * own);
  return nearest < 1 ? 1 : static_cast<int>(nearest);
}

} // namespace assay
