#include "experiments/evidence/memory/step_memory.h"

#include <nlohmann/json.hpp>

#include "core/ledger/memory_parts.h"

namespace assay {

namespace {

constexpr double kMsPerNs = 1e-6;

std::optional<StepMemory> parsed(const std::string& text) {
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    StepMemory curve;
    for (const nlohmann::json& ns : json.at("ns")) curve.ms.push_back(ns.get<double>() * kMsPerNs);
    curve.bytes = json.at("bytes").get<std::vector<double>>();
    for (const nlohmann::json& stage : json.at("stages"))
      curve.stages.push_back({stage.at(0).get<std::string>(),
                              stage.at(1).get<double>() * kMsPerNs,
                              stage.at(2).get<double>() * kMsPerNs});
    if (curve.ms.empty() || curve.ms.size() != curve.bytes.size()) return std::nullopt;
    return curve;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

} // namespace

std::optional<StepMemory> step_memory(const CellView& cell, const VariantRow& variant) {
  std::optional<StepMemory> newest;
  for (const LaunchRow* launch : cell.complete(LaunchKind::Memory))
    for (const MetricRow* metric : cell.metrics(launch->id))
      if (metric->variant == variant.id && metric->path == kMemoryCurveMetric)
        newest = parsed(metric->detail);
  return newest;
}

} // namespace assay
