#include "ui/model/results/compare_model.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/text.h"
#include "experiments/analysis/wording.h"
#include "ui/model/results/results.h"

namespace assay {
namespace {

using nlohmann::ordered_json;

// Below this share of the tallest bar the axis starts above zero, with a visible break.
constexpr double kBreakShare = 0.5;

void add_effect(CompareModel& model, const char* label, const Estimate& estimate) {
  model.effects.push_back({label, at_95_text(estimate), picture_of(estimate)});
}

void add_effects(CompareModel& model, const Comparison& comparison, const VerdictRowModel& row) {
  if (comparison.effect) {
    model.effects.push_back({"time of a unit", row.effect, row.interval});
    add_effect(model, "with rare stalls (sum)", comparison.effect->total_time);
  }
  if (comparison.device) add_effect(model, "by CUDA events", *comparison.device);
  if (comparison.end_to_end) add_effect(model, "end to end", comparison.end_to_end->log_ratio);
  if (comparison.memory) {
    EffectLine line{
        "peak memory", memory_text(comparison.memory), picture_of(comparison.memory->log_ratio)};
    if (!line.interval) { // the allocator's figure is exact: a point
      const double percent = 100 * std::expm1(comparison.memory->log_ratio.value);
      line.interval = IntervalPicture{percent, percent, percent, {}, {}, {}, {}, 0};
    }
    model.effects.push_back(line);
  }
}

double axis_of(const std::vector<EffectLine>& lines) {
  std::vector<VerdictRowModel> rows;
  for (const EffectLine& line : lines) {
    VerdictRowModel row;
    row.interval = line.interval;
    rows.push_back(row);
  }
  return assay::axis_of(rows);
}

void add_total(WaterfallModel& model, const char* label, double ns) {
  WaterfallBar bar;
  bar.kind = WaterfallBar::Kind::Total;
  bar.label = label;
  bar.to_ns = ns;
  bar.words = time_text(ns);
  model.bars.push_back(bar);
}

void add_delta(WaterfallModel& model, WaterfallBar bar, double& at, double delta, TimeUnit unit) {
  bar.from_ns = at;
  bar.to_ns = at += delta;
  bar.words = signed_in_unit(delta, unit) + " " + unit.word;
  model.bars.push_back(std::move(bar));
}

void choose_axis(WaterfallModel& model) {
  double low = model.bars.front().to_ns, high = low;
  for (const WaterfallBar& bar : model.bars) {
    const bool total = bar.kind == WaterfallBar::Kind::Total;
    const double whisker = bar.interval ? bar.interval->half_width() : 0;
    low = std::min({low, total ? bar.to_ns : bar.from_ns, bar.to_ns - whisker});
    high = std::max({high, bar.from_ns, bar.to_ns + whisker});
  }
  const double room = std::max(0.15 * (high - low), 0.02 * high);
  model.low_ns = low > kBreakShare * high ? low - 2 * room : std::min(0.0, low);
  model.high_ns = high + room;
}

void add_health(WaterfallModel& model, const char* side, const TraceHealth& health) {
  for (const AuditRow& audit : health.failed)
    model.notes.push_back(printable(
        fmt::format("trace of {}: check {} failed: {}", side, audit.check, audit.detail)));
}

} // namespace

TimeUnit time_unit(double largest_ns) {
  const double ns = std::abs(largest_ns);
  if (ns >= 1e9) return {1e9, "s"};
  if (ns >= 1e6) return {1e6, "ms"};
  if (ns >= 1e3) return {1e3, "us"};
  return {1, "ns"};
}

std::string in_unit(double ns, TimeUnit unit) {
  const double value = ns / unit.ns, size = std::abs(value);
  if (size < 0.0005) return "0"; // what three decimals cannot show
  return fmt::format("{:.{}f}", value, size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3);
}

std::string signed_in_unit(double ns, TimeUnit unit) {
  const std::string words = in_unit(ns, unit);
  return ns > 0 && words != "0" ? "+" + words : words;
}

std::string time_text(double ns) {
  const TimeUnit unit = time_unit(ns);
  return in_unit(ns, unit) + " " + unit.word;
}

WaterfallModel waterfall_model(const Waterfall& waterfall) {
  WaterfallModel model;
  const bool timed = waterfall.timed_a_ns > 0;
  double at = timed ? waterfall.timed_a_ns : waterfall.a_ns;
  add_total(model, timed ? "baseline, timed" : "baseline, traced", at);
  double largest = std::abs(waterfall.residual_ns);
  for (const StageDelta& stage : waterfall.stages)
    largest = std::max(largest, std::abs(stage.delta_ns));
  const TimeUnit unit = time_unit(largest);
  for (const StageDelta& stage : waterfall.stages) {
    WaterfallBar bar;
    bar.label = to_string(stage.stage);
    bar.stage = stage.stage;
    bar.interval = stage.interval;
    bar.clear = stage.clear;
    add_delta(model, bar, at, stage.delta_ns, unit);
  }
  if (timed) {
    WaterfallBar bar;
    bar.kind = WaterfallBar::Kind::Residual;
    bar.label = "residual";
    bar.clear = !waterfall.closed;
    add_delta(model, bar, at, waterfall.residual_ns, unit);
  }
  add_total(model, timed ? "candidate, timed" : "candidate, traced", at);
  choose_axis(model);
  model.notes.push_back(
      fmt::format("differences per step, from {} pairs of traced steps", waterfall.pairs));
  if (timed)
    model.notes.push_back(fmt::format(
        "the stages {} to the timed difference: {} of the baseline's step unexplained, {} allowed",
        waterfall.closed ? "add up" : "DO NOT ADD UP",
        share_text(std::abs(waterfall.residual_share)),
        share_text(waterfall.allowed_share)));
  add_health(model, "the baseline", waterfall.a);
  add_health(model, "the candidate", waterfall.b);
  model.warning = printable(waterfall.unusable);
  if (model.warning.empty() && timed && !waterfall.closed)
    model.warning = "The traced steps do not explain the timed difference.";
  return model;
}

CompareModel compare_model(const Results& results, std::size_t row) {
  const Results::Place place = results.places.at(row);
  const CellReport& cell = results.report.cells[place.cell];
  const Comparison& comparison = cell.comparisons[place.comparison];
  const VerdictRowModel& words = results.verdicts.rows[row];
  CompareModel model;
  model.title = words.cell + ": " + words.comparison;
  model.badge = words.badge;
  model.tone = words.tone;
  model.sentence = words.headline;
  if (comparison.effect)
    model.sentence += fmt::format(" · time per {}: {}, {}",
                                  unit_text(cell.cell),
                                  words.effect,
                                  unit_time_text(*comparison.effect));
  model.sentence += " · " + control_text(cell);
  model.sentence = printable(model.sentence);
  add_effects(model, comparison, words);
  model.axis = axis_of(model.effects);
  model.interval_level = results.verdicts.interval_level;
  if (comparison.explanation)
    model.waterfall = waterfall_model(comparison.explanation->waterfall);
  else
    model.why_no_waterfall = comparison.no_explanation.empty() && !results.explained
                                 ? "Reading the traces …"
                                 : printable(comparison.no_explanation);
  model.pairs = static_cast<std::size_t>(comparison.pairs.pairs);
  model.excluded = static_cast<std::size_t>(comparison.pairs.excluded);
  return model;
}

ordered_json to_json(const CompareModel& model) {
  ordered_json effects = ordered_json::array(), bars = ordered_json::array();
  for (const EffectLine& line : model.effects) {
    ordered_json entry{{"label", line.label}, {"words", line.words}};
    if (line.interval) {
      entry["point_percent"] = line.interval->point;
      entry["interval_percent"] = {line.interval->lo, line.interval->hi};
    }
    effects.push_back(std::move(entry));
  }
  ordered_json waterfall = nullptr;
  if (model.waterfall) {
    for (const WaterfallBar& bar : model.waterfall->bars) {
      ordered_json entry{{"label", bar.label},
                         {"words", bar.words},
                         {"ns", bar.to_ns - bar.from_ns},
                         {"clear", bar.clear}};
      if (bar.interval) entry["interval_ns"] = {bar.interval->lower, bar.interval->upper};
      bars.push_back(std::move(entry));
    }
    waterfall = {
        {"bars", bars}, {"notes", model.waterfall->notes}, {"warning", model.waterfall->warning}};
  }
  return {{"title", model.title},
          {"badge", model.badge},
          {"sentence", model.sentence},
          {"tone", to_string(model.tone)},
          {"interval_level", model.interval_level},
          {"effects", effects},
          {"waterfall", waterfall},
          {"why_no_waterfall", model.why_no_waterfall},
          {"pairs", model.pairs},
          {"excluded", model.excluded}};
}

} // namespace assay
