// Builds for people who only look have no CUDA headers: nothing is recorded from a GPU there.
#include "profilers/trace/device_collector.h"
#include "profilers/trace/nvtx_range.h"

namespace assay {

Result<std::unique_ptr<DeviceCollector>> open_device_collector(const CollectSet&, std::size_t) {
  return fail("GPU activity cannot be recorded: this build has no CUDA code; use `make build`");
}

void nvtx_open_domain() {}
void nvtx_push(const char*) {}
void nvtx_pop() {}

} // namespace assay
