// Names LibTorch's process-wide state, so that a visit that changed it is noticed.
#pragma once

#include <cstdint>

namespace assay {

// Hash of determinism, SDPA and precision flags, autocast, gradient mode, default dtype, threads,
// and the state of the default random generators (CPU; CUDA once initialized).
std::uint64_t global_state_hash();

} // namespace assay
