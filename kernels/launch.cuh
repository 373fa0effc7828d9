// Launches with dynamic shared memory, and what the current device has.
#pragma once

#include <cuda_runtime_api.h>

namespace assay {

inline int of_device(cudaDeviceAttr attribute) {
  int device = 0, value = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&value, attribute, device);
  return value;
}

inline int processors() {
  return of_device(cudaDevAttrMultiProcessorCount);
}

struct Launch {
  int blocks, threads, shared_bytes;
  cudaStream_t stream;
  bool before_end = false; // as soon as the kernel before lets it (simt.cuh), on Hopper and later
};

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), const Launch& of, const Arguments&... arguments) {
  // Per device and kernel; a call costs less than a microsecond.
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, of.shared_bytes);
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = static_cast<unsigned>(of.blocks);
  config.blockDim = static_cast<unsigned>(of.threads);
  config.dynamicSmemBytes = static_cast<std::size_t>(of.shared_bytes);
  config.stream = of.stream;
  config.attrs = &early;
  config.numAttrs = of.before_end && of_device(cudaDevAttrComputeCapabilityMajor) >= 9 ? 1 : 0;
  cudaLaunchKernelEx(&config, kernel, arguments...);
}

} // namespace assay
