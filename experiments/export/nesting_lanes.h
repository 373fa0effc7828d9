// NestingLanes: viewers of Chrome traces need the slices of a track to nest. Slices that come in
// order of start get the first lane in which they do; only those that cross another one leave lane
// 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace assay {

class NestingLanes {
public:
  // May slices contain each other, or only follow each other?
  explicit NestingLanes(bool may_enclose) : may_enclose_(may_enclose) {}

  std::size_t place(std::int64_t start, std::int64_t end) {
    for (std::size_t lane = 0;; ++lane) {
      if (lane == open_.size()) open_.emplace_back();
      std::vector<std::int64_t>& ends = open_[lane];
      while (!ends.empty() && ends.back() <= start) ends.pop_back();
      if (!ends.empty() && (!may_enclose_ || ends.back() < end)) continue;
      ends.push_back(end);
      return lane;
    }
  }

  std::size_t lanes() const { return open_.size(); }

private:
  bool may_enclose_;
  std::vector<std::vector<std::int64_t>> open_; // by lane: ends of the slices that still run
};

} // namespace assay
