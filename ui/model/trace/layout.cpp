#include "ui/model/trace/layout.h"

#include <algorithm>
#include <unordered_map>

namespace assay {
namespace {

constexpr double kLeastWidth = 3; // pixels of a box

void lay_out_lane(const Track& track,
                  std::uint32_t lane_index,
                  const LayoutRequest& request,
                  double scale,
                  std::int64_t grain,
                  std::vector<Box>& boxes) {
  static thread_local std::vector<Lane::Piece> pieces; // kept between frames: no allocation
  pieces.clear();
  const Lane& lane = track.lanes[lane_index];
  lane.visible(request.from, request.to, grain, pieces);
  const auto x = [&](std::int64_t time) {
    return static_cast<float>(std::clamp(static_cast<double>(time - request.from) * scale,
                                         -10.0,
                                         static_cast<double>(request.width) + 10));
  };
  for (const Lane::Piece& piece : pieces) {
    Box box;
    box.x0 = x(piece.start);
    box.x1 = std::max(x(piece.end), box.x0 + 1);
    box.lane = lane_index;
    box.first = static_cast<std::uint32_t>(piece.first);
    box.count = static_cast<std::uint32_t>(piece.count);
    if (piece.count > 1 && piece.end > piece.start)
      box.busy = static_cast<float>(static_cast<double>(piece.busy) /
                                    static_cast<double>(piece.end - piece.start));
    box.longest = static_cast<std::uint32_t>(piece.longest);
    box.tag = piece.tag;
    boxes.push_back(box);
  }
}

SideLayout attempt(const TraceView& view, const LayoutRequest& request, double grain_px) {
  SideLayout layout;
  layout.grain_px = grain_px;
  const double scale = request.width / static_cast<double>(request.to - request.from);
  const auto grain = static_cast<std::int64_t>(std::max(1.0, grain_px / scale));
  double row = 0;
  for (std::size_t i = 0; i < view.tracks().size(); ++i) {
    const Track& track = view.tracks()[i];
    const double end = row + static_cast<double>(track.lanes.size());
    if (end >= request.first_row && row <= request.last_row) {
      TrackLayout out{i, row, {}};
      for (std::uint32_t lane = 0; lane < track.lanes.size(); ++lane) {
        const double top = row + lane;
        if (top + 1 < request.first_row || top > request.last_row) continue;
        lay_out_lane(track, lane, request, scale, grain, out.boxes);
      }
      layout.boxes += out.boxes.size();
      layout.tracks.push_back(std::move(out));
    }
    row = end + kTrackGap;
  }
  layout.rows = row;
  return layout;
}

} // namespace

SideLayout lay_out(const TraceView& view, const LayoutRequest& request) {
  LayoutRequest valid = request;
  valid.to = std::max(valid.to, valid.from + 1);
  double grain = kLeastWidth;
  SideLayout layout = attempt(view, valid, grain);
  // A lane gives at most 2 (width / grain + 2) boxes, so that this ends; more lanes than a quarter
  // of the budget are culled by the screen's height.
  while (layout.boxes > valid.budget && grain < valid.width) {
    grain *= std::max(1.5, static_cast<double>(layout.boxes) / static_cast<double>(valid.budget));
    layout = attempt(view, valid, grain);
  }
  return layout;
}

EventRef event_of(const Track& track, const Box& box) {
  return {track.source, track.lanes[box.lane].event(box.longest)};
}

std::vector<NameShare> names_in(const TraceView& view, const Track& track, const Box& box) {
  std::unordered_map<NameId, NameShare> names;
  const Lane& lane = track.lanes[box.lane];
  for (std::size_t i = box.first; i < box.first + std::size_t{box.count}; ++i) {
    const EventRef event{track.source, lane.event(i)};
    if (event.source == Source::Stage) continue;
    NameShare& share = names[view.name_id(event)];
    share.name = view.name_id(event);
    ++share.count;
    share.ns += lane.end(i) - lane.start(i);
  }
  std::vector<NameShare> sorted;
  for (const auto& [name, share] : names) sorted.push_back(share);
  std::sort(sorted.begin(), sorted.end(), [](const NameShare& a, const NameShare& b) {
    return a.ns != b.ns ? a.ns > b.ns : a.name < b.name;
  });
  return sorted;
}

} // namespace assay
