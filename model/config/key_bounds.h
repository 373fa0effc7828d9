// Bounds of the integer keys of a training (train_keys.inc). No product of such keys that planning
// or training takes exceeds 64 bits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/result.h"

namespace assay {

// What an integer key takes: its default, which may be a 0 below `least` that a preset fills, or a
// number from `least` to `most`.
struct KeyBounds {
  std::string name;
  std::int64_t initial, least, most;
};

const std::vector<KeyBounds>& integer_bounds();
// The error names the key, its bound and `value`.
Result<bool> check_bounds(const KeyBounds& bounds, std::int64_t value);

} // namespace assay
