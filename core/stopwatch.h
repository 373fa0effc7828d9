// Elapsed time by the clock that no correction moves.
#pragma once

#include <chrono>

namespace assay {

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

} // namespace assay
