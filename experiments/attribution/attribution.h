// Attribution: where in the step the difference of two variants is. Every traced step is tiled
// into exclusive stages (device interval on a GPU, host interval on a CPU), so that stages sum to
// the step exactly; the difference of two variants is the sum of the stages' differences, each with
// an interval over pairs of traced steps, and what the traced steps do not explain of the timed
// difference is the residual. Design: statistics.md §3.12 of docs/statistics.md; docs/traces.md.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/ledger/ledger.h"
#include "core/result.h"
#include "core/statistics/statistics.h"
#include "core/trace/trace.h"

namespace assay {

enum class Stage : std::uint8_t {
  DataWait,
  HostToDevice,
  Forward,
  Backward,
  Optimizer,
  Ema,
  Evaluation,
  ExposedComm, // collectives that no compute hides
  Graph,       // GPU: nodes of a CUDA graph that the trace relates to no stage
  HostGap, // GPU: nothing on the device while the host still works (launch-bound, synchronization)
           // CPU: inside the step, outside every stage's span
  Idle     // GPU: nothing on the device, and the host waits or is outside the step's spans
};
inline constexpr std::size_t kStages = 11;
inline constexpr std::array<std::string_view, kStages> kStageNames{"data wait",
                                                                   "host to device",
                                                                   "forward",
                                                                   "backward",
                                                                   "optimizer",
                                                                   "ema",
                                                                   "evaluation",
                                                                   "exposed communication",
                                                                   "cuda graph",
                                                                   "host gap",
                                                                   "idle"};
std::string_view to_string(Stage stage); // "forward", "host gap" … as people read them
std::optional<Stage> stage_from(std::string_view name); // also with '_' for ' '

using StageTimes = std::array<std::int64_t, kStages>; // ns, by Stage

struct StageSegment { // one piece of the tiling, for the timeline's stage lane
  std::int64_t start = 0, end = 0;
  Stage stage = Stage::Idle;
};

struct StepTiling {
  StepRow step;
  std::int64_t
      start = 0,
      end = 0; // the tiled interval: GPU: first to last moment of the step on the device clock
  StageTimes stage_ns{};                        // sums to end - start
  std::vector<StageSegment> segments;           // in order, without holes or overlap
  std::int64_t host_ns = 0, device_busy_ns = 0; // both stored; 0 on a CPU for the device
  std::int64_t wall_ns() const { return end - start; }
};

// One row per step of the trace, uncounted ones included.
std::vector<StepTiling> tile_steps(const Trace& trace);

struct StageDelta {
  Stage stage = Stage::Idle;
  double a_ns = 0, b_ns = 0;        // mean exclusive time a step
  double delta_ns = 0;              // b - a
  std::optional<Interval> interval; // 95 %, of delta_ns, over pairs of traced steps
  bool clear = false;               // the interval excludes 0
};

struct TraceHealth { // of one variant's trace
  std::string path;
  bool passed = true;           // every audit check
  std::vector<AuditRow> failed; // those that did not pass
  std::size_t steps = 0;        // counted ones
  double traced_over_timed = 0; // median traced step / median timed step
};

// Residuals of up to this share of the baseline's unit close; more where the timed interval is
// wider.
inline constexpr double kClosureShare = 0.01;

struct Waterfall {
  double a_ns = 0, b_ns = 0;               // mean traced step, = sum of stages
  std::vector<StageDelta> stages;          // those that occur, in Stage order
  std::size_t pairs = 0;                   // of traced steps
  std::optional<Interval> traced_interval; // 95 %, of b_ns - a_ns, over pairs of traced steps
  double timed_a_ns = 0;                   // the timed verdict's unit
  double timed_delta_ns = 0;               // its difference
  std::optional<Interval> timed_interval;  // 95 %, in ns
  double residual_ns = 0;                  // timed_delta_ns - sum of stage deltas
  double residual_share = 0;               // of the baseline's timed unit
  double allowed_share = 0;                // max(1 %, half-width of the timed interval)
  bool closed = false;                     // |residual_share| <= allowed_share
  TraceHealth a, b;
  std::string unusable; // why nothing should rest on it (no pairs, failed audit), or ""

  double traced_delta_ns() const; // sum of the stages' differences
};

enum class DiffStatus { Added, Removed, Faster, Slower, Same, Unclear };
std::string_view to_string(DiffStatus status);

struct DiffRow { // a kernel (GPU) or an operator's own time (CPU), in one stage
  std::string name, short_name,
      kernel_class; // class: gemm attention norm elementwise reduction copy nccl other
  Stage stage = Stage::Idle;
  double calls_a = 0, calls_b = 0; // a step
  double a_ns = 0, b_ns = 0;       // exclusive time a step
  double delta_ns = 0;
  std::optional<Interval> interval; // 95 %, of delta_ns, over pairs of traced steps
  DiffStatus status = DiffStatus::Unclear;
};

struct Explanation {
  std::string cell, a, b; // names
  std::string traced_as;  // "device" or "host": which clock tiles the step
  Waterfall waterfall;
  std::vector<DiffRow> kernels;   // GPU kernels, copies, sets; empty on a CPU
  std::vector<DiffRow> operators; // LibTorch operators by their own time; empty if not recorded
};

// The candidate against the baseline from two traces of one launch (pairs: same round and position,
// counted steps). The timed figures are left 0 when `timed` is absent.
struct TimedDifference {
  double a_ns = 0, delta_ns = 0;
  std::optional<Interval> interval;
};
Explanation explain(const Trace& a, const Trace& b, const std::optional<TimedDifference>& timed);

// Share of the gain in `stages`: sum of their deltas / sum of all deltas, or of the timed
// difference if that is the larger gain. Nothing when the total is not a gain.
std::optional<double> gain_share(const Waterfall& waterfall, const std::vector<Stage>& stages);

} // namespace assay
