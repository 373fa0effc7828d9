// When a timed launch that was cut off still counts.
#pragma once

namespace assay {

// At least half of the planned rounds, and one.
constexpr bool enough_rounds(int rounds, int planned) {
  return rounds > 0 && 2 * rounds >= planned;
}

} // namespace assay
