// What a training is told whose device is missing.
#pragma once

namespace assay {

inline constexpr const char* kNoUsableGpu =
    "device = cuda needs a GPU, and LibTorch finds none that it can use; `assay doctor` gives the "
    "reason; `run`, `ab` and `train` take --device cpu for what a CPU can run";

} // namespace assay
