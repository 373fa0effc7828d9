#include "profilers/monitor/boards.h"

#include <memory>
#include <utility>

namespace assay {

namespace {

std::map<int, std::int64_t> memory_of_processes(const NvmlApi& api, NvmlApi::Device device) {
  std::vector<NvmlProcess> processes(16);
  std::map<int, std::int64_t> bytes;
  const unsigned count = list_processes(api, device, processes).value_or(0);
  for (unsigned i = 0; i < count; ++i)
    bytes[static_cast<int>(processes[i].pid)] +=
        static_cast<std::int64_t>(processes[i].used_gpu_memory);
  return bytes;
}

} // namespace

Result<std::vector<Board>> open_boards(const NvmlApi& functions) {
  const Result<std::vector<GpuInfo>> gpus = list_gpus(functions);
  if (!gpus) return gpus.error();
  const Result<std::shared_ptr<const NvmlApi>> started = start_nvml(functions);
  if (!started) return started.error();
  const std::shared_ptr<const NvmlApi>& api = *started;
  std::vector<Board> boards;
  for (unsigned index = 0; index < gpus->size(); ++index) {
    NvmlApi::Device device = nullptr;
    if (const NvmlApi::Status found = api->device_by_index(index, &device);
        found != NvmlApi::kSuccess)
      return fail("NVML cannot open GPU {}: {}", index, nvml_reason(*api, found));
    boards.push_back({(*gpus)[index], nvml_meters(api, device), [api, device] {
                        return memory_of_processes(*api, device);
                      }});
  }
  return boards;
}

Result<std::vector<Board>> open_boards() {
  const Result<NvmlApi> api = load_nvml();
  if (!api) return api.error();
  return open_boards(*api);
}

} // namespace assay
