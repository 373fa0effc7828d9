// TracePairs: the counted steps that two traces of one launch share, and means over them. Steps of
// one round are averaged first: they follow one another on a warm device and are no independent
// samples, rounds are.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "core/trace/trace.h"

namespace assay {

struct TracePairs {
  // One entry per round: the indices of the baseline's and the candidate's steps, pair by pair.
  std::vector<std::vector<std::pair<std::size_t, std::size_t>>> rounds;
  std::size_t pairs = 0;

  // Round and weight of each step of a side in the mean of its round; round -1: not paired.
  struct Place {
    int round = -1;
    double weight = 0;
  };
  std::vector<Place> places_a, places_b;
};

TracePairs pair_steps(const std::vector<StepRow>& a, const std::vector<StepRow>& b);

} // namespace assay
