// How the GPU benchmarks time work on the current stream and on the host.
#pragma once

#include <cstdint>
#include <functional>

namespace assay {

// Milliseconds by CUDA events: the median of `repeats` after two warm-ups, each after a write of
// more than the L2 holds. Then the stream waits `ahead` nanoseconds, in which the host enqueues:
// where that is enough, the time holds no launch that came too late.
double device_ms(int repeats, const std::function<void()>& work, std::int64_t ahead = 0);

// Milliseconds by the host's clock, as a caller sees them: the median of `repeats` means of ten
// calls that follow each other, from the first call to the end of the last one's kernels.
double user_ms(int repeats, const std::function<void()>& work);

} // namespace assay
