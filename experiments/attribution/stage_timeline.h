// StageTimeline: which stage's span is open on one thread of the host, by time. Where spans nest,
// the innermost one that names a stage counts.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/trace/trace.h"
#include "experiments/attribution/attribution.h"

namespace assay {

// The stage that a Span's name opens; nothing for spans of other things ("step", "attention/…").
std::optional<Stage> stage_of_span(std::string_view name);

class StageTimeline {
public:
  // `thread`: globalTid.
  StageTimeline(const Trace& trace, std::int64_t thread);

  struct Piece {
    std::int64_t start = 0, end = 0;
    std::optional<Stage> stage; // nothing: outside every stage's span
  };
  std::optional<Stage> at(std::int64_t time) const;
  // [start, end] cut at every change of stage; without holes.
  std::vector<Piece> pieces(std::int64_t start, std::int64_t end) const;

private:
  struct Change { // from `time` on
    std::int64_t time = 0;
    std::optional<Stage> stage;
  };
  void change(std::int64_t time, std::optional<Stage> stage);
  std::size_t first_after(std::int64_t time) const;

  std::vector<Change> changes_;
};

} // namespace assay
