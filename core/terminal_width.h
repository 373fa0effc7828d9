// The narrowest terminal for which text is laid out.
#pragma once

namespace assay {

inline constexpr int kLeastColumns = 40;

} // namespace assay
