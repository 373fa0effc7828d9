// Our spans as NVTX ranges of the domain "assay", so that other profilers see them. Without an
// injected tool a call is a load and a branch. Builds without CUDA headers have no-ops.
#pragma once

namespace assay {

void nvtx_open_domain(); // the process's first NVTX call: looks for an injected tool and may load
                         // it
void nvtx_push(const char* name);
void nvtx_pop();

} // namespace assay
