// Lane: one row of a timeline, events that do not overlap, with a pyramid over them so that any
// zoom level costs a few look-ups a pixel. A node of level k sums up 8^k events: how long they were
// busy, and which is the longest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace assay {

class Lane {
public:
  static constexpr std::size_t kFanOut = 8;

  // Ordered by start; an event may begin where the one before ends, never earlier. `tag`: its
  // colour class, so that a far zoom needs no look at the events themselves.
  void add(std::int64_t start, std::int64_t end, std::uint32_t event, std::uint8_t tag = 0);
  void finish(); // builds the pyramid; nothing is added afterwards

  std::size_t size() const { return start_.size(); }
  std::int64_t start(std::size_t i) const { return start_[i]; }
  std::int64_t end(std::size_t i) const { return end_[i]; }
  std::uint32_t event(std::size_t i) const { return event_[i]; } // index into the trace's list
  std::uint8_t tag(std::size_t i) const { return tag_[i]; }

  struct Summary {
    std::int64_t busy = 0;   // ns, sum of durations
    std::size_t longest = 0; // position in the lane; the first of equals
  };
  Summary summary(std::size_t first, std::size_t last) const; // of [first, last); not empty

  struct Piece { // one event (count 1), or neighbours that are too short to be drawn apart
    std::size_t first = 0, count = 0;
    std::int64_t start = 0, end = 0, busy = 0;
    std::size_t longest = 0; // position in the lane
    std::uint8_t tag = 0;    // of the longest
  };
  // What touches [from, to), appended to `pieces`. Events of at least `grain` ns are drawn alone;
  // the others that begin in one grain of the absolute time axis (or in a node of a quarter grain
  // that does) become one piece, so that panning does not flicker. At most 2 ((to - from) / grain +
  // 2) pieces.
  void
  visible(std::int64_t from, std::int64_t to, std::int64_t grain, std::vector<Piece>& pieces) const;

  std::size_t first_ending_after(std::int64_t time) const;
  std::size_t at(std::int64_t time) const; // the event that contains it, or size()
  std::size_t bytes() const;

private:
  struct Node {
    std::int64_t start = 0, end = 0, busy = 0;
    std::uint32_t longest = 0;
    std::uint32_t duration = 0; // of the longest, ns; kLongestNode: see the event
    std::uint8_t tag = 0;       // of the longest
  };
  static constexpr std::uint32_t kLongestNode = 0xffffffff; // 4.3 s
  std::int64_t duration_of(const Node& node) const;
  Node node_of_event(std::size_t i) const;
  void add_to(Node& sum, const Node& node) const; // neighbours

  std::vector<std::int64_t> start_, end_;
  std::vector<std::uint32_t> event_;
  std::vector<std::uint8_t> tag_;
  std::vector<std::vector<Node>> levels_; // levels_[0]: 8 events a node
};

// Spreads events, ordered by start, over the first lanes that have room; nested events land below
// what encloses them. Events that find none of `limit` lanes free are counted.
class LaneStack {
public:
  explicit LaneStack(std::size_t limit) : limit_(limit) {}
  void add(std::int64_t start, std::int64_t end, std::uint32_t event, std::uint8_t tag = 0);
  std::vector<Lane> finish();
  std::size_t without_lane() const { return without_lane_; }
  std::size_t without_time() const { return without_time_; } // lost time stamp, or end before start

private:
  std::size_t limit_, without_lane_ = 0, without_time_ = 0;
  std::vector<Lane> lanes_;
  std::vector<std::int64_t> ends_;
};

} // namespace assay
