// Widths of a terminal, in columns: of one that is unknown, and the least that text is laid out
// for.
#pragma once

namespace assay {

inline constexpr int kUsualColumns = 80, kLeastColumns = 40;

} // namespace assay
