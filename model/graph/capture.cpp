#include "model/graph/capture.h"

#include <ATen/core/CachingHostAllocator.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/util/Exception.h>

#include <exception>
#include <utility>

namespace assay {

namespace {

// Another error is on its way: what fails here can only be reported.
template <class Step> void reporting(const char* what, Step step) {
  try {
    step();
  } catch (const std::exception& error) {
    TORCH_WARN("after a failed CUDA graph capture, ", what, " was not ended: ", error.what());
  }
}

class OpenCapture {
public:
  explicit OpenCapture(GraphRoom& room)
      : room_(room), graph_(std::make_unique<at::cuda::CUDAGraph>(/*keep_graph=*/true)) {}
  ~OpenCapture() {
    if (open_) abandon();
  }
  OpenCapture(const OpenCapture&) = delete;
  OpenCapture& operator=(const OpenCapture&) = delete;

  void begin() {
    open_ = true; // from the first of its steps, each of which may fail
    // Loader threads may call CUDA meanwhile: only this thread is held to the rules of a capture.
    graph_->capture_begin(room_.pool(), cudaStreamCaptureModeThreadLocal);
  }

  std::unique_ptr<at::cuda::CUDAGraph> end() {
    graph_->capture_end();
    open_ = false; // from here the graph's destructor gives all back
    graph_->instantiate();
    return std::move(graph_);
  }

private:
  // CUDA's errors here repeat the failure that ended the capture. LibTorch's graph gives back
  // nothing before capture_end() has returned.
  void abandon() {
    cudaGraph_t captured = nullptr;
    (void)cudaStreamEndCapture(room_.stream(), &captured);
    if (captured != nullptr) (void)cudaGraphDestroy(captured);
    (void)cudaGetLastError();
    const c10::MempoolId_t pool = room_.pool();
    reporting("its device memory", [&] {
      const c10::DeviceIndex device = room_.stream().device_index();
      c10::cuda::CUDACachingAllocator::endAllocateToPool(device, pool);
      c10::cuda::CUDACachingAllocator::releasePool(device, pool);
    });
    reporting("its pinned memory", [&] {
      at::HostAllocator& host = *at::getHostAllocator(at::kCUDA);
      host.end_allocate_to_pool(pool);
      host.release_pool(pool);
    });
  }

  GraphRoom& room_;
  std::unique_ptr<at::cuda::CUDAGraph> graph_;
  bool open_ = false;
};

} // namespace

std::unique_ptr<at::cuda::CUDAGraph> capture_graph(GraphRoom& room,
                                                   const std::function<void()>& work) {
  const GraphStreamGuard on_stream(room); // outlives the capture: it records events
  OpenCapture capture(room);
  capture.begin();
  work();
  return capture.end();
}

} // namespace assay
