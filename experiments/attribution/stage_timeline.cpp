#include "experiments/attribution/stage_timeline.h"

#include <algorithm>

namespace assay {

namespace {

struct OpenSpan {
  std::int64_t end = 0;
  Stage stage = Stage::Idle;
};

// Spans that open a stage on this thread, outer before inner. Ranges of other NVTX domains, which
// may use the same words, are no stages.
std::vector<const HostEvent*>
stage_spans(const Trace& trace, std::size_t thread, std::vector<std::optional<Stage>>& stages) {
  stages.clear();
  for (const std::string& name : trace.names) stages.push_back(stage_of_span(name));
  std::vector<const HostEvent*> spans;
  for (const HostEvent& span : trace.spans) {
    const std::string& domain = trace.name(span.domain);
    if (span.thread == thread && span.end > span.start && stages[span.name] &&
        (domain.empty() || domain == "assay"))
      spans.push_back(&span);
  }
  std::stable_sort(spans.begin(), spans.end(), [](const HostEvent* x, const HostEvent* y) {
    return x->start != y->start ? x->start < y->start : x->end > y->end;
  });
  return spans;
}

} // namespace

std::optional<Stage> stage_of_span(std::string_view name) {
  if (name == "forward") return Stage::Forward;
  if (name == "backward") return Stage::Backward;
  if (name == "optimizer") return Stage::Optimizer;
  if (name == "evaluate") return Stage::Evaluation;
  if (name == "data_wait") return Stage::DataWait;
  if (name == "host_to_device") return Stage::HostToDevice;
  if (name == "exposed_communication") return Stage::ExposedComm; // on a CPU; a GPU's is its events
  if (name.substr(0, 4) == "ema/") return Stage::Ema;
  return std::nullopt;
}

StageTimeline::StageTimeline(const Trace& trace, std::int64_t thread) {
  const auto found = std::find(trace.threads.begin(), trace.threads.end(), thread);
  if (found == trace.threads.end()) return;
  std::vector<std::optional<Stage>> stages;
  std::vector<OpenSpan> open;
  const auto close_until = [&](std::int64_t time) {
    while (!open.empty() && open.back().end <= time) {
      const std::int64_t end = open.back().end;
      open.pop_back();
      change(end, open.empty() ? std::nullopt : std::optional(open.back().stage));
    }
  };
  const auto index = static_cast<std::size_t>(found - trace.threads.begin());
  for (const HostEvent* span : stage_spans(trace, index, stages)) {
    close_until(span->start);
    open.push_back({span->end, *stages[span->name]});
    change(span->start, open.back().stage);
  }
  close_until(INT64_MAX);
}

// A child that outlives its parent (a damaged trace) would step back in time: it moves up instead.
void StageTimeline::change(std::int64_t time, std::optional<Stage> stage) {
  if (!changes_.empty()) time = std::max(time, changes_.back().time);
  changes_.push_back({time, stage});
}

std::size_t StageTimeline::first_after(std::int64_t time) const {
  const auto found = std::upper_bound(
      changes_.begin(), changes_.end(), time, [](std::int64_t t, const Change& change) {
        return t < change.time;
      });
  return static_cast<std::size_t>(found - changes_.begin());
}

std::optional<Stage> StageTimeline::at(std::int64_t time) const {
  const std::size_t next = first_after(time);
  return next == 0 ? std::nullopt : changes_[next - 1].stage;
}

std::vector<StageTimeline::Piece> StageTimeline::pieces(std::int64_t start,
                                                        std::int64_t end) const {
  std::vector<Piece> result;
  std::int64_t from = start;
  for (std::size_t next = first_after(start); from < end; ++next) {
    const std::int64_t until = next < changes_.size() ? std::min(end, changes_[next].time) : end;
    if (until > from)
      result.push_back({from, until, next == 0 ? std::nullopt : changes_[next - 1].stage});
    from = std::max(from, until);
  }
  return result;
}

} // namespace assay
