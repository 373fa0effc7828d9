#include "profilers/monitor/boards.h"

#include <memory>
#include <utility>

namespace assay {

namespace {

constexpr unsigned kRoom = 16; // for processes, at first
constexpr int kAttempts = 3;   // more may start while their number is asked

std::map<int, std::int64_t> memory_of_processes(const NvmlApi& api, NvmlApi::Device device) {
  std::vector<NvmlProcess> processes(kRoom);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    auto count = static_cast<unsigned>(processes.size());
    const NvmlApi::Status status = api.processes(device, &count, processes.data());
    if (status == NvmlApi::kInsufficientSize) {
      processes.resize(count + kRoom);
      continue;
    }
    if (status != NvmlApi::kSuccess || count > processes.size()) return {};
    std::map<int, std::int64_t> bytes;
    for (unsigned i = 0; i < count; ++i)
      bytes[static_cast<int>(processes[i].pid)] +=
          static_cast<std::int64_t>(processes[i].used_gpu_memory);
    return bytes;
  }
  return {};
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
    boards.push_back({(*gpus)[index], nvml_meters(*api, device), [api, device] {
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
