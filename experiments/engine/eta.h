// How long launches take, from those before them.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/text.h"
#include "experiments/evidence/plan_state.h"

namespace assay {

// Durations of complete launches, for the time that is left.
class Eta {
public:
  void read(const LedgerData& data) {
    for (const LaunchRow& launch : data.launches)
      if (launch.state == LaunchState::Complete)
        if (const auto seconds = seconds_between(launch.started_utc, launch.ended_utc))
          seen_[{launch.cell, launch.kind}].push_back(*seconds);
  }

  void finished(const LaunchTask& task, double seconds) {
    seen_[{task.cell, task.kind}].push_back(seconds);
  }

  std::optional<double> left(const std::vector<LaunchTask>& after,
                             std::optional<double> current_left) const {
    if (!current_left) return std::nullopt;
    double total = *current_left;
    for (const LaunchTask& task : after) {
      const std::optional<double> typical = expected(task);
      if (!typical) return std::nullopt;
      total += *typical;
    }
    return total;
  }

  // The mean of the cell's launches of this kind; else that of all launches of this kind; before
  // the first traced one, that of timed ones, which have more rounds.
  std::optional<double> expected(LaunchTask task) const {
    const std::optional<double> known = mean_of(task);
    if (known || task.kind != LaunchKind::Traced) return known;
    task.kind = LaunchKind::Timed;
    return mean_of(task);
  }

private:
  std::optional<double> mean_of(const LaunchTask& task) const {
    double sum = 0, n = 0;
    if (const auto own = seen_.find({task.cell, task.kind}); own != seen_.end()) {
      for (const double s : own->second) sum += s, ++n;
    } else {
      for (const auto& [key, values] : seen_)
        if (key.second == task.kind)
          for (const double s : values) sum += s, ++n;
    }
    return n > 0 ? std::optional(sum / n) : std::nullopt;
  }

  std::map<std::pair<std::int64_t, LaunchKind>, std::vector<double>> seen_;
};

} // namespace assay
