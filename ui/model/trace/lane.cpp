#include "ui/model/trace/lane.h"

#include <algorithm>
#include <cassert>

namespace assay {
namespace {

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  const std::int64_t quotient = a / b;
  return a % b < 0 ? quotient - 1 : quotient;
}

} // namespace

void Lane::add(std::int64_t start, std::int64_t end, std::uint32_t event, std::uint8_t tag) {
  assert(end >= start && (end_.empty() || start >= end_.back()));
  start_.push_back(start);
  end_.push_back(end);
  event_.push_back(event);
  tag_.push_back(tag);
}

std::int64_t Lane::duration_of(const Node& node) const {
  return node.duration < kLongestNode ? node.duration : end_[node.longest] - start_[node.longest];
}

Lane::Node Lane::node_of_event(std::size_t i) const {
  const std::int64_t duration = end_[i] - start_[i];
  return {start_[i],
          end_[i],
          duration,
          static_cast<std::uint32_t>(i),
          static_cast<std::uint32_t>(std::min<std::int64_t>(duration, kLongestNode)),
          tag_[i]};
}

void Lane::add_to(Node& sum, const Node& node) const {
  sum.end = node.end;
  sum.busy += node.busy;
  const bool longer = node.duration == kLongestNode ? duration_of(node) > duration_of(sum)
                                                    : node.duration > sum.duration;
  if (!longer) return;
  sum.longest = node.longest;
  sum.duration = node.duration;
  sum.tag = node.tag;
}

void Lane::finish() {
  start_.shrink_to_fit();
  end_.shrink_to_fit();
  event_.shrink_to_fit();
  tag_.shrink_to_fit();
  std::size_t below = size();
  while (below > kFanOut) {
    std::vector<Node> level;
    level.reserve((below + kFanOut - 1) / kFanOut);
    for (std::size_t i = 0; i < below; ++i) {
      const Node child = levels_.empty() ? node_of_event(i) : levels_.back()[i];
      if (i % kFanOut == 0)
        level.push_back(child);
      else
        add_to(level.back(), child);
    }
    below = level.size();
    levels_.push_back(std::move(level));
  }
}

Lane::Summary Lane::summary(std::size_t first, std::size_t last) const {
  Node sum;
  bool begun = false;
  // Climbs while whole nodes fit, then comes down again; `width` is a node of `level`.
  std::size_t level = 0, width = 1;
  while (first < last) {
    while (level < levels_.size() && first % (width * kFanOut) == 0 &&
           first + width * kFanOut <= last) {
      width *= kFanOut;
      ++level;
    }
    while (first + width > last) {
      width /= kFanOut;
      --level;
    }
    const Node node = level == 0 ? node_of_event(first) : levels_[level - 1][first / width];
    if (begun)
      add_to(sum, node);
    else
      sum = node;
    begun = true;
    first += width;
  }
  return {sum.busy, sum.longest};
}

void Lane::visible(std::int64_t from,
                   std::int64_t to,
                   std::int64_t grain,
                   std::vector<Piece>& pieces) const {
  grain = std::max<std::int64_t>(1, grain);
  Node open; // the piece that grows
  std::size_t first = 0, count = 0;
  std::int64_t edge = 0; // where its grain ends
  const auto close = [&] {
    if (count > 0)
      pieces.push_back({first, count, open.start, open.end, open.busy, open.longest, open.tag});
    count = 0;
  };
  std::size_t i = first_ending_after(from), level = 0, width = 1;
  while (i < size()) {
    // The largest node here that is narrow (so that none of its events is drawn alone) and ends
    // inside.
    const auto fits = [&](std::size_t at, std::size_t events) {
      if (i % events != 0 || i + events > size()) return false;
      const Node& node = levels_[at - 1][i / events];
      return node.end - node.start <= grain / 4 && node.end <= to;
    };
    while (level < levels_.size() && fits(level + 1, width * kFanOut)) {
      width *= kFanOut;
      ++level;
    }
    while (level > 0 && !fits(level, width)) {
      width /= kFanOut;
      --level;
    }
    const Node node = level == 0 ? node_of_event(i) : levels_[level - 1][i / width];
    if (node.start >= to) break;
    if (level == 0 && node.end - node.start >= grain) {
      close();
      pieces.push_back({i, 1, node.start, node.end, node.busy, i, node.tag});
    } else if (count > 0 && node.start < edge) {
      add_to(open, node);
      count += width;
    } else {
      close();
      open = node;
      first = i;
      count = width;
      edge = (floor_div(node.start, grain) + 1) * grain;
    }
    i += width;
  }
  close();
}

std::size_t Lane::first_ending_after(std::int64_t time) const {
  return static_cast<std::size_t>(std::upper_bound(end_.begin(), end_.end(), time) - end_.begin());
}

std::size_t Lane::at(std::int64_t time) const {
  const std::size_t i = first_ending_after(time);
  return i < size() && start_[i] <= time ? i : size();
}

std::size_t Lane::bytes() const {
  std::size_t bytes =
      size() * (2 * sizeof(std::int64_t) + sizeof(std::uint32_t) + sizeof(std::uint8_t));
  for (const auto& level : levels_) bytes += level.size() * sizeof(Node);
  return bytes;
}

void LaneStack::add(std::int64_t start, std::int64_t end, std::uint32_t event, std::uint8_t tag) {
  if (start == 0 || end < start) { // a zero time stamp means that the source lost it
    ++without_time_;
    return;
  }
  std::size_t lane = 0;
  while (lane < lanes_.size() && ends_[lane] > start) ++lane;
  if (lane == limit_) {
    ++without_lane_;
    return;
  }
  if (lane == lanes_.size()) {
    lanes_.emplace_back();
    ends_.push_back(0);
  }
  lanes_[lane].add(start, end, event, tag);
  ends_[lane] = end;
}

std::vector<Lane> LaneStack::finish() {
  for (Lane& lane : lanes_) lane.finish();
  return std::move(lanes_);
}

} // namespace assay
