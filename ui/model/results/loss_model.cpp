#include "ui/model/results/loss_model.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/text.h"

namespace assay {
namespace {

using nlohmann::ordered_json;

LossLine line_of(const CellRow& cell, const std::vector<double>& loss) {
  LossLine line{{}, loss};
  for (std::size_t visit = 0; visit < loss.size(); ++visit)
    line.step.push_back(step_of_visit(cell, visit));
  return line;
}

LossSide side_of(const CellRow& cell, const LossBundle* bundle, const std::string& variant) {
  LossSide side;
  side.variant = printable(variant);
  if (bundle == nullptr) return side;
  for (const LossCurve* curve : bundle->seeds) {
    side.seeds.push_back(curve->seed);
    side.curves.push_back(line_of(cell, curve->loss));
  }
  side.mean = line_of(cell, bundle->mean);
  return side;
}

Tone tone_of(Quality quality) {
  if (quality == Quality::Harmed) return Tone::Bad;
  return quality == Quality::Unknown ? Tone::Neutral : Tone::Good;
}

// Symmetric about zero.
LossRange axis_of_differences(const LossModel& model) {
  double reach = std::max(1.3 * model.margin, 1e-6);
  const auto include = [&](double value) {
    if (std::isfinite(value)) reach = std::max(reach, 1.1 * std::abs(value));
  };
  for (const double value : model.difference.loss) include(value);
  if (model.interval) include(model.interval->lower), include(model.interval->upper);
  return {-reach, reach};
}

const LossBundle* find(const std::vector<LossBundle>& all, const std::string& variant) {
  for (const LossBundle& bundle : all)
    if (bundle.variant == variant) return &bundle;
  return nullptr;
}

ordered_json to_json(const LossSide& side) {
  ordered_json curves = ordered_json::array();
  for (std::size_t i = 0; i < side.curves.size(); ++i)
    curves.push_back({{"seed", side.seeds[i]}, {"loss", side.curves[i].loss}});
  return {{"variant", side.variant}, {"seeds", curves}, {"mean", side.mean.loss}};
}

} // namespace

std::optional<LossModel> loss_model(const CellReport& cell, const Comparison& comparison) {
  if (!comparison.loss) return std::nullopt;
  const LossTest& test = *comparison.loss;
  const std::vector<LossBundle> all = loss_bundles(cell.loss_curves);
  const LossBundle *a = find(all, comparison.a), *b = find(all, comparison.b);
  LossModel model;
  model.sides = {side_of(cell.cell, a, comparison.a), side_of(cell.cell, b, comparison.b)};
  if (a != nullptr && b != nullptr) model.difference = line_of(cell.cell, loss_difference(*b, *a));
  model.badge = to_string(test.result.quality);
  model.tone = tone_of(test.result.quality);
  model.words = printable(loss_text(test));
  model.steps = test.steps;
  model.judged_from = first_judged_step(test);
  model.margin = test.result.margin;
  model.rule = test.rule;
  if (test.result.test) {
    model.final_difference = test.result.test->mean;
    model.interval = test.result.test->interval;
    model.interval_level = fmt::format("{:.4g} %", 100 * test.result.test->level());
  }
  if (a == nullptr && b == nullptr)
    model.why_none = fmt::format("No loss launch is complete yet: {} of {} seeds.",
                                 cell.loss_launches,
                                 cell.cell.loss_seeds);
  std::vector<LossBundle> both;
  for (const LossBundle* bundle : {a, b})
    if (bundle != nullptr) both.push_back(*bundle);
  model.losses = loss_range(both);
  model.differences = axis_of_differences(model);
  return model;
}

ordered_json to_json(const LossModel& model) {
  ordered_json interval = nullptr;
  if (model.interval) interval = {model.interval->lower, model.interval->upper};
  return {{"badge", model.badge},
          {"tone", to_string(model.tone)},
          {"words", model.words},
          {"steps", model.steps},
          {"judged_from", model.judged_from},
          {"margin", model.margin},
          {"baseline", to_json(model.sides[0])},
          {"candidate", to_json(model.sides[1])},
          {"difference", model.difference.loss},
          {"final_difference",
           model.final_difference ? ordered_json(*model.final_difference) : ordered_json(nullptr)},
          {"interval", interval},
          {"interval_level", model.interval_level},
          {"why_none", model.why_none}};
}

} // namespace assay
