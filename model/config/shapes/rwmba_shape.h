// What the layers of family `rwmba` and their costs both know.
#pragma once

#include <cstdint>

namespace assay {

inline constexpr std::int64_t kMambaExpand = 2; // Mamba-2's values have twice the key's width

} // namespace assay
