#include "ui/model/results/memory_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/text.h"
#include "ui/model/results/runs_model.h"

namespace assay {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kModules = 8; // rows of the table
constexpr double kMib = 1 << 20, kGib = 1 << 30;
constexpr double kRoom = 1.2; // above the highest point, for the stages' names

std::string stage_at(const StepMemory& curve, double ms) {
  for (const StepMemory::Stage& stage : curve.stages)
    if (ms >= stage.from_ms && ms <= stage.to_ms) return ", in " + printable(stage.name);
  return "";
}

MemorySide
side_of(const std::string& variant, const std::optional<StepMemory>& curve, double unit) {
  MemorySide side;
  side.variant = printable(variant);
  if (!curve) return side;
  side.ms = curve->ms;
  for (const double bytes : curve->bytes) side.used.push_back(bytes / unit);
  side.stages = curve->stages;
  const auto top = std::ranges::max_element(curve->bytes) - curve->bytes.begin();
  const double at = curve->ms[static_cast<std::size_t>(top)];
  side.words = fmt::format("{} at the peak, {:.3g} ms into the step{}",
                           human_bytes(curve->bytes[static_cast<std::size_t>(top)]),
                           at,
                           stage_at(*curve, at));
  return side;
}

ordered_json to_json(const MemorySide& side) {
  ordered_json stages = ordered_json::array();
  for (const StepMemory::Stage& stage : side.stages)
    stages.push_back({stage.name, stage.from_ms, stage.to_ms});
  return {{"variant", side.variant},
          {"words", side.words},
          {"ms", side.ms},
          {"used", side.used},
          {"stages", stages}};
}

} // namespace

std::optional<MemoryModel> memory_model(const Comparison& comparison) {
  if (!comparison.memory || comparison.memory->parts.empty()) return std::nullopt;
  const MemoryEffect& memory = *comparison.memory;
  MemoryModel model;
  const bool large = std::max(memory.a_bytes, memory.b_bytes) >= kGib;
  const double unit = large ? kGib : kMib;
  model.unit = large ? "GiB" : "MiB";
  model.sides = {side_of(comparison.a, memory.a_curve, unit),
                 side_of(comparison.b, memory.b_curve, unit)};
  for (const MemorySide& side : model.sides)
    if (!side.ms.empty()) {
      model.ms = std::max(model.ms, side.ms.back());
      model.used = std::max(model.used, kRoom * std::ranges::max(side.used));
    }
  if (!memory.a_curve && !memory.b_curve)
    model.why_no_curve = "An older Assay wrote these results, without the bytes over a step.";
  model.phases = memory_phases_section(memory);
  model.modules = memory_modules_section(memory, kModules);
  return model;
}

ordered_json to_json(const MemoryModel& model) {
  return {{"baseline", to_json(model.sides[0])},
          {"candidate", to_json(model.sides[1])},
          {"unit", model.unit},
          {"why_no_curve", model.why_no_curve},
          {"phases", to_json(model.phases)},
          {"modules", to_json(model.modules)}};
}

} // namespace assay
