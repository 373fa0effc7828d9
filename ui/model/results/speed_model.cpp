#include "ui/model/results/speed_model.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "core/text.h"

namespace assay {
namespace {

using nlohmann::ordered_json;
using Sides = std::array<const VariantSpeed*, 2>;
using Words = std::function<std::string(const VariantSpeed&)>; // "": not known

Sides sides_of(const CellReport& cell, const Comparison& comparison) {
  Sides sides{};
  for (const VariantSpeed& speed : cell.speed) {
    if (speed.variant == comparison.a || speed.variant.empty()) sides[0] = &speed;
    if (speed.variant == comparison.b || speed.variant.empty()) sides[1] = &speed;
  }
  return sides;
}

// A row that neither side knows is left out.
void add_row(SpeedModel& model, const char* label, const Sides& sides, const Words& words) {
  SpeedRow row{label, {"-", "-"}};
  bool known = false;
  for (std::size_t side = 0; side < 2; ++side) {
    if (sides[side] == nullptr) continue;
    const std::string said = words(*sides[side]);
    if (said.empty()) continue;
    row.values[side] = said;
    known = true;
  }
  if (known) model.rows.push_back(std::move(row));
}

void add_times(SpeedModel& model, const Sides& sides) {
  add_row(model, "step, measured", sides, [](const VariantSpeed& speed) {
    return human_seconds(speed.step_seconds);
  });
  add_row(model, "of it the device worked", sides, [](const VariantSpeed& speed) {
    return speed.busy_seconds ? human_seconds(*speed.busy_seconds) : "";
  });
  add_row(model, "step at measured peaks", sides, light_text);
  add_row(model, "of it bound by compute", sides, [](const VariantSpeed& speed) {
    return speed.light ? human_seconds(speed.light->compute_seconds) : "";
  });
  add_row(model, "of it bound by bytes", sides, [](const VariantSpeed& speed) {
    return speed.light ? human_seconds(speed.light->bytes_seconds) : "";
  });
  add_row(model, "launches a step", sides, kernel_launches_text);
  add_row(model, "what binds", sides, bound_text);
}

} // namespace

std::optional<SpeedModel> speed_model(const CellReport& cell, const Comparison& comparison) {
  const Sides sides = sides_of(cell, comparison);
  if (sides[0] == nullptr && sides[1] == nullptr) return std::nullopt;
  SpeedModel model;
  model.step_beside = sides[0] == sides[1];
  add_row(model, "speed", sides, [](const VariantSpeed& speed) {
    return token_rate_text(speed.tokens_per_second);
  });
  add_row(model, "MFU", sides, utilization_text);
  if (comparison.memory)
    model.rows.push_back(
        {"peak memory",
         {human_bytes(comparison.memory->a_bytes), human_bytes(comparison.memory->b_bytes)}});
  add_times(model, sides);
  for (const VariantSpeed* speed : sides)
    if (speed != nullptr && !speed->unknown.empty() &&
        std::find(model.notes.begin(), model.notes.end(), speed->unknown) == model.notes.end())
      model.notes.push_back(speed->unknown);
  return model;
}

ordered_json to_json(const SpeedModel& model) {
  ordered_json rows = ordered_json::array();
  for (const SpeedRow& row : model.rows)
    rows.push_back({{"label", row.label}, {"a", row.values[0]}, {"b", row.values[1]}});
  return {{"step_beside", model.step_beside}, {"rows", rows}, {"notes", model.notes}};
}

} // namespace assay
