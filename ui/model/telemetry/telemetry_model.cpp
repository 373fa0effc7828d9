#include "ui/model/telemetry/telemetry_model.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/text.h"

namespace assay {
namespace {

using nlohmann::ordered_json;

TelemetryRowModel& row_of(TelemetryModel& model, const TelemetryMetric& metric) {
  for (TelemetryRowModel& row : model.rows)
    if (row.name == metric.name) return row;
  model.rows.push_back({metric.name, metric.source, {}, false});
  return model.rows.back();
}

void add_side(TelemetryModel& model, const TraceView& view, std::size_t side) {
  const std::vector<TelemetrySeries>& all = view.trace().telemetry;
  for (std::size_t i = 0; i < all.size(); ++i) {
    TelemetryRowModel& row = row_of(model, all[i].metric);
    TelemetrySide& out = row.sides[side];
    out.series = &all[i];
    const SeriesSummary& summary = view.series()[i];
    if (all[i].metric.status != "ok")
      out.words = printable(all[i].metric.status);
    else if (all[i].value.empty())
      out.words = "no samples";
    else
      out.words =
          fmt::format("mean {:.4g} · 5-95 % of samples {:.4g} to {:.4g} · {} samples, one every {}",
                      summary.mean,
                      summary.p5,
                      summary.p95,
                      all[i].value.size(),
                      human_seconds(static_cast<double>(summary.spacing_ns) / 1e9));
    row.plotted |= !all[i].value.empty();
  }
}

void choose_range(TelemetryModel& model, const Workspace& workspace) {
  double longest = 1e-6;
  for (const TraceSlot& slot : workspace.traces)
    if (slot.view)
      longest = std::max(
          longest, static_cast<double>(slot.view->last_time() - slot.view->first_time()) / 1e9);
  model.last_s = longest;
  if (workspace.telemetry.span <= 0) return;
  model.first_s = workspace.telemetry.from / 1e9;
  model.last_s = (workspace.telemetry.from + workspace.telemetry.span) / 1e9;
}

std::optional<Notice> why_empty(const TelemetryModel& model, const Workspace& workspace) {
  if (workspace.traces[0].loading || workspace.traces[1].loading)
    return Notice{"Reading the traces", "Samples appear when the file has been read.", ""};
  if (!workspace.traces[0].view && !workspace.traces[1].view) {
    std::string why = workspace.traces[0].why_none;
    if (workspace.traces[1].why_none != why && !workspace.traces[1].why_none.empty())
      why += (why.empty() ? "" : "\n") + workspace.traces[1].why_none;
    return Notice{"There is no telemetry", printable(why), ""};
  }
  if (model.rows.empty())
    return Notice{"The traces contain no telemetry",
                  "No sampler ran beside them. `assay doctor` shows which meters this machine has.",
                  ""};
  return std::nullopt;
}

} // namespace

TelemetryModel telemetry_model(const Workspace& workspace) {
  TelemetryModel model;
  for (std::size_t side = 0; side < 2; ++side) {
    const TraceSlot& slot = workspace.traces[side];
    model.variants[side] = slot.variant;
    if (slot.view) add_side(model, *slot.view, side);
  }
  std::stable_partition(model.rows.begin(), model.rows.end(), [](const TelemetryRowModel& row) {
    return row.plotted;
  });
  choose_range(model, workspace);
  model.notice = why_empty(model, workspace);
  return model;
}

ordered_json to_json(const TelemetryModel& model) {
  ordered_json rows = ordered_json::array();
  for (const TelemetryRowModel& row : model.rows)
    rows.push_back({{"name", printable(row.name)},
                    {"source", printable(row.source)},
                    {"baseline", row.sides[0].words},
                    {"candidate", row.sides[1].words},
                    {"plotted", row.plotted}});
  ordered_json all{{"baseline", model.variants[0]},
                   {"candidate", model.variants[1]},
                   {"from_s", model.first_s},
                   {"to_s", model.last_s},
                   {"rows", rows}};
  all["notice"] = model.notice ? ordered_json(model.notice->title) : ordered_json(nullptr);
  return all;
}

std::vector<Strip> strips(const TelemetrySeries& series,
                          std::int64_t spacing_ns,
                          std::int64_t origin_ns,
                          double from_s,
                          double to_s,
                          int columns) {
  std::vector<Strip> all;
  const auto at = [&](std::size_t i) {
    return static_cast<double>(series.time[i] - origin_ns) / 1e9;
  };
  const double gap_s = kGapFactor * static_cast<double>(spacing_ns) / 1e9;
  const double column_s = (to_s - from_s) / std::max(1, columns);
  std::int64_t column = -1;
  std::optional<double> before;
  for (std::size_t i = 0; i < series.time.size(); ++i) {
    const double x = at(i);
    if (x < from_s - gap_s || x > to_s + gap_s) continue;
    const double offset = column_s > 0 ? (x - from_s) / column_s : 0; // 0: one instant is shown
    const auto this_column = static_cast<std::int64_t>(std::clamp(offset, 0.0, 2.0 * columns));
    const bool gap = before && spacing_ns > 0 && x - *before > gap_s;
    if (all.empty() || gap) {
      all.emplace_back();
      column = -1;
    }
    before = x;
    Strip& strip = all.back();
    if (this_column == column && !strip.x.empty()) {
      strip.low.back() = std::min(strip.low.back(), series.value[i]);
      strip.high.back() = std::max(strip.high.back(), series.value[i]);
      continue;
    }
    column = this_column;
    strip.x.push_back(x);
    strip.low.push_back(series.value[i]);
    strip.high.push_back(series.value[i]);
  }
  return all;
}

} // namespace assay
