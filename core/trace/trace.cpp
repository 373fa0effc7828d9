#include "core/trace/trace.h"

#include <algorithm>

namespace assay {

void TraceBatch::clear() {
  kernels.clear();
  copies.clear();
  sets.clear();
  api.clear();
  syncs.clear();
  overhead.clear();
  ranges.clear();
  operators.clear();
  steps.clear();
  telemetry.clear();
}

std::string Trace::value(const std::string& key) const {
  const auto found =
      std::find_if(info.begin(), info.end(), [&](const auto& pair) { return pair.first == key; });
  return found == info.end() ? "" : found->second;
}

bool Trace::on_gpu() const {
  return !device.empty() || value("device").starts_with("cuda");
}

} // namespace assay
