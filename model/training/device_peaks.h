// What the current GPU reaches on the simplest work of each kind: the peaks of the roofline
// (core/statistics/roofline.h). Measured, because data sheets name clocks that no board keeps under
// load.
#pragma once

#include "core/statistics/roofline.h"
#include "model/config/train_config.h"

namespace assay {

// Best of several repeats, each long enough that the host runs ahead; takes well below a second on
// a data-center board, and about 1 GiB for that time. The FP8 product is measured for
// Precision::Fp8 only (else 0). Uses no random numbers. Needs a usable GPU.
MeasuredPeaks measure_peaks(Precision precision);

} // namespace assay
