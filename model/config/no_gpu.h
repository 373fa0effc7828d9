// What a training is told whose device is missing.
#pragma once

namespace assay {

inline constexpr const char* kNoUsableGpu =
    "device 'cuda' was asked for, but LibTorch finds no usable GPU; `assay doctor` gives the "
    "reason; `run`, `ab` and `train` also take --device cpu";

} // namespace assay
