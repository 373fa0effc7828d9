#include "model/training/planted_wait.h"

#include <c10/cuda/CUDAStream.h>

#include <chrono>
#include <thread>

#include "core/span.h"
#include "kernels/cuda_check.h"
#include "kernels/spin.h"

namespace assay {

namespace {

constexpr std::chrono::milliseconds kWait{1};

const char* span_name(PlantedWait place) {
  switch (place) {
  case PlantedWait::None:
    break;
  case PlantedWait::Forward:
    return "planted/forward";
  case PlantedWait::Backward:
    return "planted/backward";
  case PlantedWait::Optimizer:
    return "planted/optimizer";
  case PlantedWait::Ema:
    return "ema/planted";
  case PlantedWait::Host:
    return "planted/host";
  }
  return "planted/none";
}

} // namespace

void planted_wait(const TrainConfig& config, PlantedWait place) {
  if (config.planted_wait != place) return;
  const Span span(span_name(place));
  if (place == PlantedWait::Host) {
    std::this_thread::sleep_for(kWait);
  } else if (config.device == Device::Cuda) {
    launch_spin(std::chrono::nanoseconds(kWait).count(),
                c10::cuda::getCurrentCUDAStream().stream());
    ASSAY_CUDA(cudaGetLastError());
  } else {
    const auto until = std::chrono::steady_clock::now() + kWait;
    while (std::chrono::steady_clock::now() < until) {
    }
  }
}

} // namespace assay
