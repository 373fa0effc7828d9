#include "ui/model/telemetry/telemetry_strips.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "core/text.h"
#include "ui/model/align.h"
#include "ui/model/workspace.h"

namespace assay {
namespace {

// What first distinguishes a disturbed step from a quiet one. The rest is on the Telemetry screen.
constexpr std::array<std::string_view, 5> kTelling{
    "SM clock [MHz]", "Power [W]", "GPU busy [%]", "CPU busy [%]", "Resident memory [MiB]"};
constexpr std::size_t kMostStrips = 3;

const TelemetrySeries*
series_named(const Workspace& workspace, std::size_t side, std::string_view name) {
  if (!workspace.traces[side].view) return nullptr;
  for (const TelemetrySeries& series : workspace.traces[side].view->trace().telemetry)
    if (series.metric.name == name && !series.value.empty()) return &series;
  return nullptr;
}

// Whether a sample is within the shown time, not only beside it.
bool any_inside(const std::vector<Strip>& seen, TimeRange range) {
  return std::any_of(seen.begin(), seen.end(), [&](const Strip& strip) {
    return std::any_of(strip.x.begin(), strip.x.end(), [&](double x) {
      return x * 1e9 >= range.from && x * 1e9 <= range.from + range.span;
    });
  });
}

std::optional<double> mean(const std::vector<Strip>& seen) {
  double sum = 0;
  std::size_t count = 0;
  for (const Strip& strip : seen)
    for (std::size_t i = 0; i < strip.x.size(); ++i, ++count)
      sum += (strip.low[i] + strip.high[i]) / 2;
  if (count == 0) return std::nullopt;
  return sum / static_cast<double>(count);
}

} // namespace

std::vector<Strip> samples_in_sight(const Workspace& workspace,
                                    std::size_t side,
                                    const TelemetryStrip& strip,
                                    int columns) {
  const TraceView& view = *workspace.traces[side].view;
  const TimeRange range = workspace.timeline.range[side];
  return strips(*strip.series,
                view.series()[strip.index].spacing_ns,
                anchor(workspace, side),
                range.from / 1e9,
                (range.from + range.span) / 1e9,
                columns);
}

std::vector<TelemetryStrip> telemetry_strips(const Workspace& workspace, std::size_t side) {
  std::vector<TelemetryStrip> chosen;
  if (!workspace.timeline.strips) return chosen;
  for (const std::string_view name : kTelling) {
    TelemetryStrip strip;
    strip.series = series_named(workspace, side, name);
    if (strip.series == nullptr || chosen.size() == kMostStrips) continue;
    strip.index = static_cast<std::size_t>(strip.series -
                                           workspace.traces[side].view->trace().telemetry.data());
    strip.low = std::numeric_limits<double>::infinity();
    strip.high = -strip.low;
    for (std::size_t of = 0; of < 2; ++of)
      if (const TelemetrySeries* series = series_named(workspace, of, name)) {
        const auto [low, high] = std::minmax_element(series->value.begin(), series->value.end());
        strip.low = std::min(strip.low, *low);
        strip.high = std::max(strip.high, *high);
      }
    constexpr int kColumns = 100;
    const std::vector<Strip> seen = samples_in_sight(workspace, side, strip, kColumns);
    strip.mean = mean(seen);
    strip.between = !any_inside(seen, workspace.timeline.range[side]);
    strip.title = printable(name) + " " +
                  (strip.mean ? fmt::format("{}{:.4g}", strip.between ? "~" : "", *strip.mean)
                              : "no sample here");
    chosen.push_back(std::move(strip));
  }
  return chosen;
}

} // namespace assay
