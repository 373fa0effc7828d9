#include "profilers/trace/trace_audit.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <tuple>

#include "core/result.h"

namespace assay {

namespace {

constexpr double kClockErrorLimitNs = 5000;
constexpr double kCoverageLimit = 0.95;      // share of step wall time inside recorded spans
constexpr double kOverheadLimit = 0.05;      // CUPTI's own share of step wall time
constexpr std::int64_t kEarlyLimitNs = 1000; // a kernel before its launch by less is clock noise
constexpr double kNoLimit = std::numeric_limits<double>::max();

AuditRow at_most(std::string check, double value, double limit, std::string detail) {
  return {std::move(check), value, limit, value <= limit, std::move(detail)};
}

} // namespace

template <class Row> void TraceAudit::see_times(const Row& row) {
  if (row.start == 0 || row.end == 0)
    ++zero_times_;
  else if (row.end < row.start)
    ++clamped_;
}

template <class Row>
void TraceAudit::see_device(const Row& row, std::uint64_t graph_node, std::uint32_t graph) {
  see_times(row);
  ++device_rows_;
  const std::uint64_t stream = static_cast<std::uint64_t>(row.device) << 32 | row.stream;
  std::int64_t& last = last_start_[stream];
  if (row.start != 0 && row.start < last) ++out_of_order_;
  last = std::max(last, row.start);
  work_.push_back({row.correlation, row.start, row.end, stream, graph_node != 0, graph});
}

// Every replay of a graph has a record for each of its nodes: a place in it names a node.
void TraceAudit::count_replays() {
  for (std::size_t from = 0, to = 0; from < work_.size(); from = to) {
    std::uint32_t graph = 0;
    for (; to < work_.size() && work_[to].correlation == work_[from].correlation; ++to)
      graph = std::max(graph, work_[to].graph_id);
    if (!work_[from].graph || graph == 0) continue;
    ++replays_;
    const auto nodes = static_cast<std::int64_t>(to - from);
    if (graph_nodes_.emplace(graph, nodes).first->second != nodes) ++short_replays_;
  }
}

void TraceAudit::see(const TraceBatch& batch) {
  for (const KernelRow& row : batch.kernels) see_device(row, row.graph_node, row.graph);
  for (const CopyRow& row : batch.copies) see_device(row, row.graph_node);
  for (const SetRow& row : batch.sets) see_device(row, row.graph_node);
  for (const ApiRow& row : batch.api) {
    see_times(row);
    calls_.emplace_back(row.correlation, row.start);
  }
  for (const SyncRow& row : batch.syncs) see_times(row);
  for (const OverheadRow& row : batch.overhead)
    if (row.end > row.start) overhead_ns_ += row.end - row.start;
  for (const OperatorRow& row : batch.operators) see_times(row);
  for (const RangeRow& row : batch.ranges) {
    if (row.event_type == 34) continue;
    see_times(row);
    if (row.end > row.start) roots_.emplace_back(row.start, row.end);
  }
  for (const StepRow& row : batch.steps) step_wall_ns_ += row.end - row.start;
  // Spans and steps of a visit may come in different batches: coverage is counted at its end.
  for (const StepRow& row : batch.steps) steps_.emplace_back(row.start, row.end);
}

void TraceAudit::end_visit() {
  std::sort(calls_.begin(), calls_.end());
  for (const Work& work : work_) {
    if (work.correlation == 0 || work.start == 0) continue;
    // Ids grow with the calls: work of a call that is not recorded is placed by the call before it.
    const auto after =
        std::upper_bound(calls_.begin(),
                         calls_.end(),
                         std::pair(work.correlation, std::numeric_limits<std::int64_t>::max()));
    if (after == calls_.begin()) {
      ++unmatched_;
      continue;
    }
    const auto call = after - 1;
    if (call->first != work.correlation) {
      ++placed_;
      continue;
    }
    if (const std::int64_t early = call->second - work.start; early > kEarlyLimitNs) {
      ++early_kernels_;
      worst_early_ns_ = std::max(worst_early_ns_, early);
    }
  }
  std::sort(work_.begin(), work_.end(), [](const Work& a, const Work& b) {
    return std::tie(a.correlation, a.start) < std::tie(b.correlation, b.start);
  });
  for (std::size_t i = 1; i < work_.size(); ++i)
    if (work_[i].correlation != 0 && work_[i].correlation == work_[i - 1].correlation &&
        !work_[i].graph)
      ++duplicates_;
  count_replays();
  std::sort(work_.begin(), work_.end(), [](const Work& a, const Work& b) {
    return std::tie(a.stream, a.start) < std::tie(b.stream, b.start);
  });
  for (std::size_t i = 1; i < work_.size(); ++i)
    if (work_[i].stream == work_[i - 1].stream && work_[i].start < work_[i - 1].end) ++overlapping_;
  std::sort(roots_.begin(), roots_.end());
  for (const auto& [start, end] : steps_) {
    std::int64_t reached = start;
    for (const auto& [from, to] : roots_) {
      if (to <= reached || from >= end) continue;
      covered_ns_ += std::min(to, end) - std::max(from, reached);
      reached = std::min(to, end);
    }
  }
  work_.clear();
  calls_.clear();
  roots_.clear();
  steps_.clear();
}

std::vector<AuditRow> TraceAudit::rows_of_every_trace(const AuditInputs& in) const {
  const auto count = [](std::int64_t n) { return static_cast<double>(n); };
  std::vector<AuditRow> rows;
  rows.push_back(at_most("lost_records",
                         count(in.device.dropped + in.lost_host_events),
                         0,
                         "records that CUPTI or a full ring could not keep: times and counts are "
                         "too low"));
  rows.push_back(at_most("dropped_buffers",
                         count(in.device.dropped_buffers),
                         0,
                         "whole buffers beyond the memory limit: parts of steps are missing"));
  rows.push_back(at_most("invalid_records",
                         count(in.device.invalid),
                         0,
                         "buffers with a record of unknown shape: their rest is lost"));
  rows.push_back(at_most("unknown_kinds",
                         count(in.device.unknown_kinds),
                         kNoLimit,
                         "records of kinds that nobody asked for"));
  rows.push_back(at_most("timestamp_zero",
                         count(zero_times_),
                         0,
                         "records whose time was lost: they belong to no stage"));
  rows.push_back(
      at_most("end_before_start", count(clamped_), 0, "records with an impossible duration"));
  rows.push_back(at_most("out_of_order",
                         count(out_of_order_),
                         kNoLimit,
                         "rows that came later than a younger one of their stream; readers sort"));
  rows.push_back(at_most("open_ranges",
                         count(in.open_ranges + in.stray_ends),
                         0,
                         "spans or operators without begin or end"));
  rows.push_back(at_most(
      "altered_names", count(in.altered_names), kNoLimit, "names that were cut or were not UTF-8"));
  rows.push_back(at_most("clock_steps",
                         count(in.clock_steps),
                         0,
                         fmt::format("CLOCK_REALTIME moved by up to {:.0f} ns against "
                                     "CLOCK_MONOTONIC",
                                     in.clock_drift_ns)));
  const double wall = std::max(1.0, count(step_wall_ns_));
  const double coverage = count(covered_ns_) / wall;
  rows.push_back({"step_coverage",
                  coverage,
                  kCoverageLimit,
                  coverage >= kCoverageLimit,
                  "share of the steps' wall time inside recorded spans"});
  return rows;
}

std::vector<AuditRow> TraceAudit::rows_of_a_gpu(const AuditInputs& in) const {
  const auto count = [](std::int64_t n) { return static_cast<double>(n); };
  const double wall = std::max(1.0, count(step_wall_ns_));
  std::vector<AuditRow> rows;
  rows.push_back(at_most("refused_calls",
                         count(in.device.refused),
                         0,
                         in.device.refused == 0
                             ? "calls that CUPTI refused"
                             : "CUPTI refused, so records are missing: " + in.device.note));
  rows.push_back({"clock_fit",
                  in.device.clock_error_ns.value_or(-1),
                  kClockErrorLimitNs,
                  in.device.clock_error_ns.value_or(kNoLimit) <= kClockErrorLimitNs,
                  "ns, bound of CUPTI's host clock against ours; -1: it could not be read"});
  rows.push_back(at_most(
      "launch_after_kernel",
      count(early_kernels_),
      0,
      fmt::format("kernels that start before their launch, by up to {} ns", worst_early_ns_)));
  rows.push_back(at_most("unmatched_correlation",
                         count(unmatched_),
                         0,
                         "work on the GPU before every recorded launch: its stage is unknown"));
  rows.push_back(at_most("placed_by_order",
                         count(placed_),
                         kNoLimit,
                         "work of calls that are not recorded (driver launches of libraries), "
                         "placed by the order of the calls"));
  rows.push_back(at_most("duplicate_correlation",
                         count(duplicates_),
                         kNoLimit,
                         "pieces of work that share a launch, outside CUDA graphs"));
  if (replays_ > 0)
    rows.push_back(at_most("graph_nodes",
                           count(short_replays_),
                           0,
                           fmt::format("of {} replays of CUDA graphs, those with another number of "
                                       "records than the graph's first: stages of their nodes are "
                                       "unknown",
                                       replays_)));
  rows.push_back(at_most("overlapping_kernels",
                         count(overlapping_),
                         kNoLimit,
                         "pieces of work that overlap on one stream"));
  if (in.overhead_recorded)
    rows.push_back(at_most("cupti_overhead_share",
                           count(overhead_ns_) / wall,
                           kOverheadLimit,
                           "CUPTI's own time, as it reports it, against step wall time"));
  rows.push_back({"device_rows",
                  count(device_rows_),
                  1,
                  device_rows_ >= 1,
                  "kernels, copies and sets recorded; none means that the GPU was not seen"});
  return rows;
}

std::vector<AuditRow> TraceAudit::rows(const AuditInputs& in) const {
  std::vector<AuditRow> all = rows_of_every_trace(in);
  if (in.cuda) std::ranges::copy(rows_of_a_gpu(in), std::back_inserter(all));
  return all;
}

} // namespace assay
