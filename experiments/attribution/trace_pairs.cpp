#include "experiments/attribution/trace_pairs.h"

#include <map>

namespace assay {

namespace {

std::map<std::pair<int, int>, std::size_t> counted(const std::vector<StepRow>& steps) {
  std::map<std::pair<int, int>, std::size_t> result;
  for (std::size_t i = 0; i < steps.size(); ++i)
    if (steps[i].counted) result[{steps[i].round, steps[i].position}] = i;
  return result;
}

} // namespace

TracePairs pair_steps(const std::vector<StepRow>& a, const std::vector<StepRow>& b) {
  TracePairs result;
  const auto of_b = counted(b);
  int round = -1;
  for (const auto& [place, i] : counted(a)) {
    const auto partner = of_b.find(place);
    if (partner == of_b.end()) continue;
    if (result.rounds.empty() || place.first != round) result.rounds.emplace_back();
    round = place.first;
    result.rounds.back().emplace_back(i, partner->second);
    ++result.pairs;
  }
  result.places_a.resize(a.size());
  result.places_b.resize(b.size());
  for (std::size_t r = 0; r < result.rounds.size(); ++r)
    for (const auto& [in_a, in_b] : result.rounds[r]) {
      const double weight = 1.0 / static_cast<double>(result.rounds[r].size());
      result.places_a[in_a] = {static_cast<int>(r), weight};
      result.places_b[in_b] = {static_cast<int>(r), weight};
    }
  return result;
}

} // namespace assay
