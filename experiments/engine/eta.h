// How long launches take, from those before them.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/text.h"
#include "experiments/evidence/owed/plan_state.h"

namespace assay {

// Durations of complete launches, for the time that is left.
class Eta {
public:
  void read(const LedgerData& data) {
    for (const CellRow& cell : data.cells)
      if (cell.rounds > 0)
        traced_rounds_[cell.id] = static_cast<double>(cell.traced_rounds) / cell.rounds;
    for (const LaunchRow& launch : data.launches)
      if (launch.state == LaunchState::Complete)
        if (const auto seconds = seconds_between(launch.started_utc, launch.ended_utc))
          seen_[{launch.cell, launch.kind}].push_back(*seconds);
  }

  void finished(const LaunchTask& task, double seconds) {
    seen_[{task.cell, task.kind}].push_back(seconds);
  }

  // Where no launch tells how long this one takes, the running one does: `elapsed` seconds for
  // `done` rounds of `all`.
  void assume(const LaunchTask& task, double elapsed, int done, int all) {
    if (done > 0 && !expected(task)) finished(task, elapsed * all / done);
  }

  std::optional<double> left(const std::vector<LaunchTask>& after,
                             std::optional<double> current_left) const {
    if (!current_left) return std::nullopt;
    double total = *current_left;
    for (const LaunchTask& task : after) {
      const std::optional<double> one = expected(task);
      if (!one) return std::nullopt;
      total += *one;
    }
    return total;
  }

  // The median of the cell's launches of this kind, of two the shorter; else that of all launches
  // of this kind; before the first traced one, that of timed ones, by rounds where it has more of
  // them. A mean would follow a machine that was suspended or whose clock was set.
  std::optional<double> expected(LaunchTask task) const {
    const std::optional<double> known = typical(task);
    if (known || task.kind != LaunchKind::Traced) return known;
    task.kind = LaunchKind::Timed;
    const std::optional<double> timed = typical(task);
    const auto more = traced_rounds_.find(task.cell);
    if (!timed || more == traced_rounds_.end()) return timed;
    return *timed * std::max(1.0, more->second);
  }

private:
  std::optional<double> typical(const LaunchTask& task) const {
    std::vector<double> times;
    if (const auto own = seen_.find({task.cell, task.kind}); own != seen_.end())
      times = own->second;
    else
      for (const auto& [key, values] : seen_)
        if (key.second == task.kind) times.insert(times.end(), values.begin(), values.end());
    if (times.empty()) return std::nullopt;
    const auto middle = times.begin() + (std::ssize(times) - 1) / 2;
    std::nth_element(times.begin(), middle, times.end());
    return *middle;
  }

  std::map<std::pair<std::int64_t, LaunchKind>, std::vector<double>> seen_;
  std::map<std::int64_t, double> traced_rounds_; // by cell: for one of a timed launch
};

} // namespace assay
