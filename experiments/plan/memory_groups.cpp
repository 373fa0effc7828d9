#include "experiments/plan/memory_groups.h"

#include <algorithm>

namespace assay {

namespace {

std::vector<TrainConfig> pick(const std::vector<TrainConfig>& levels,
                              const std::vector<std::size_t>& indices) {
  std::vector<TrainConfig> group;
  for (const std::size_t i : indices) group.push_back(levels[i]);
  return group;
}

} // namespace

ModelSize size_in_memory(const TrainConfig& config) {
  ModelSize size = model_size(config);
  if (config.device != Device::Cpu) return size;
  constexpr std::int64_t kMost = std::int64_t{1} << 58; // sums of a few stay within 64 bits
  for (std::int64_t* bytes :
       {&size.state_bytes, &size.gradient_bytes, &size.activation_bytes, &size.update_bytes})
    *bytes = *bytes < kMost / config.ranks ? *bytes * config.ranks : kMost;
  return size;
}

std::int64_t group_bytes(const std::vector<TrainConfig>& group) {
  std::int64_t bytes = size_in_memory(group.front()).state_bytes, steps = 0;
  for (const TrainConfig& config : group) {
    const ModelSize size = size_in_memory(config);
    bytes += size.state_bytes;
    steps = std::max(steps, size.step_bytes());
  }
  return bytes + steps;
}

std::int64_t alone_bytes(const TrainConfig& config) {
  const ModelSize size = size_in_memory(config);
  return size.state_bytes + size.step_bytes();
}

std::vector<std::vector<std::size_t>> memory_groups(const std::vector<TrainConfig>& levels,
                                                    std::int64_t limit) {
  std::vector<std::vector<std::size_t>> groups;
  for (std::size_t i = 1; i < levels.size(); ++i) {
    if (!groups.empty()) {
      std::vector<std::size_t> larger = groups.back();
      larger.push_back(i);
      if (group_bytes(pick(levels, larger)) <= limit) {
        groups.back() = std::move(larger);
        continue;
      }
    }
    groups.push_back({0, i});
  }
  return groups;
}

} // namespace assay
