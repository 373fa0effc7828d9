// The two sides of a comparison in the report's words: side 0 is the baseline, 1 the candidate.
#pragma once

#include <cstddef>
#include <string>

#include "core/text.h"

namespace assay {

inline const char* side_word(std::size_t side) {
  return side == 0 ? "baseline" : "candidate";
}

// "baseline mask_dense"; the word alone where the level is not known.
inline std::string side_title(std::size_t side, const std::string& level) {
  return level.empty() ? side_word(side) : side_word(side) + (" " + printable(level));
}

} // namespace assay
