// TraceAudit: checks of a trace by itself. It sees every batch before the batch is stored, on
// the writer thread, and puts its findings beside the rows (ASSAY_AUDIT). A failed check downgrades
// what rests on the trace; it never removes rows.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/trace/trace.h"
#include "profilers/trace/device_collector.h"

namespace assay {

// Sources of loss and doubt that no row shows.
struct AuditInputs {
  DeviceCounters device;
  bool cuda = false, overhead_recorded = false;
  std::int64_t lost_host_events = 0; // full rings
  std::int64_t open_ranges = 0;      // begun and not ended at the end of a visit
  std::int64_t stray_ends = 0;       // ended without a begin
  std::int64_t altered_names = 0;
  std::int64_t clock_steps = 0; // CLOCK_REALTIME moved against CLOCK_MONOTONIC
  double clock_drift_ns = 0;    // largest such movement
};

class TraceAudit {
public:
  void see(const TraceBatch& batch);
  // All rows of the visit have been seen: launches and kernels are joined now.
  void end_visit();
  std::vector<AuditRow> rows(const AuditInputs& inputs) const;

private:
  std::vector<AuditRow> rows_of_every_trace(const AuditInputs& inputs) const;
  std::vector<AuditRow> rows_of_a_gpu(const AuditInputs& inputs) const;

  struct Work { // of a stream
    std::uint32_t correlation;
    std::int64_t start, end;
    std::uint64_t stream; // device << 32 | stream
    bool graph;
    std::uint32_t graph_id; // kernels: CUPTI's number of the graph
  };
  template <class Row> void see_times(const Row& row);
  template <class Row>
  void see_device(const Row& row, std::uint64_t graph_node, std::uint32_t graph = 0);
  void count_replays(); // of work_ in the order of launches

  std::int64_t zero_times_ = 0, clamped_ = 0, out_of_order_ = 0;
  std::int64_t early_kernels_ = 0, unmatched_ = 0, placed_ = 0, duplicates_ = 0, overlapping_ = 0;
  std::int64_t device_rows_ = 0, replays_ = 0, short_replays_ = 0;
  std::map<std::uint32_t, std::int64_t> graph_nodes_; // by graph: records of its first replay
  std::int64_t worst_early_ns_ = 0;
  std::map<std::uint64_t, std::int64_t> last_start_;          // by stream, in order of arrival
  std::vector<Work> work_;                                    // of this visit
  std::vector<std::pair<std::uint32_t, std::int64_t>> calls_; // correlation, start; of this visit
  std::vector<std::pair<std::int64_t, std::int64_t>> roots_, steps_; // spans, steps; of this visit
  std::int64_t step_wall_ns_ = 0, covered_ns_ = 0, overhead_ns_ = 0;
};

} // namespace assay
