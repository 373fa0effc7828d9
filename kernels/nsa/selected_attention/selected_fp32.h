// The fp32 forward behind launch_selected_forward: plain multiply-adds, no tensor cores (TF32 would
// not keep fp32's precision).
#pragma once

#include "kernels/nsa/selected_attention/selected_attention.h"

namespace assay {

void launch_selected_forward_fp32(const SelectedProblem& problem,
                                  const SelectedOutput& output,
                                  cudaStream_t stream);

} // namespace assay
