#include "ui/model/area.h"

#include <algorithm>

#include "ui/model/align.h"
#include "ui/model/results/compare_model.h"
#include "ui/model/side.h"
#include "ui/model/workspace.h"

namespace assay {
namespace {

// Events that begin in [from, to), and how long they are busy; a few look-ups whatever the range.
struct Held {
  std::size_t count = 0;
  std::int64_t busy = 0;
};

Held held(const Lane& lane, std::int64_t from, std::int64_t to) {
  Held sum;
  std::size_t first = lane.first_ending_after(from);
  if (first < lane.size() && lane.start(first) < from) ++first; // begins before
  std::size_t last = lane.first_ending_after(to);
  if (last < lane.size() && lane.start(last) < to) ++last;
  if (first >= last) return sum;
  sum.count = last - first;
  sum.busy = lane.summary(first, last).busy;
  return sum;
}

std::string side_words(const Workspace& workspace, std::size_t side, TimeRange area) {
  const TraceView& view = *workspace.traces[side].view;
  const std::int64_t from = anchor(workspace, side) + static_cast<std::int64_t>(area.from);
  const std::int64_t to = from + static_cast<std::int64_t>(area.span);
  std::string words = fmt::format(
      "{} of {}", time_text(area.span), side_title(side, workspace.traces[side].variant));
  std::size_t shown = 0;
  for (const Track& track : view.tracks()) {
    if (track.source == Source::Stage || track.lanes.empty() || shown == 3) continue;
    const Held sum = held(track.lanes[0], from, to); // the outermost row: nothing counts twice
    if (sum.count == 0) continue;
    ++shown;
    words += fmt::format(" · {}: {} begin, {:.0f} % busy",
                         track.title,
                         sum.count,
                         std::min(100.0, 100 * static_cast<double>(sum.busy) / area.span));
  }
  return words;
}

} // namespace

std::optional<AreaSummary> area_summary(const Workspace& workspace) {
  if (!workspace.timeline.area || workspace.timeline.area->span <= 0) return std::nullopt;
  AreaSummary summary;
  for (std::size_t side = 0; side < 2; ++side)
    if (workspace.traces[side].view)
      summary.sides[side] = side_words(workspace, side, *workspace.timeline.area);
  return summary;
}

} // namespace assay
