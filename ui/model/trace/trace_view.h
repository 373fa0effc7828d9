// TraceView: a trace as the timeline needs it: steps tiled, events in lanes with pyramids, names
// classified, same-named events listed. Built on the loader's thread, immutable afterwards.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/trace/trace.h"
#include "experiments/attribution/attribution.h"
#include "ui/model/trace/lane.h"

namespace assay {

enum class Source : std::uint8_t { Stage, Span, Operator, Api, Sync, Overhead, Device };
inline constexpr std::size_t kSources = 7;

struct EventRef { // an event of one list of the trace; Stage: of TraceView::segments
  Source source = Source::Stage;
  std::uint32_t index = 0;
  bool operator==(const EventRef&) const = default;
};

struct Track {
  std::string role;  // the same in A and B for rows that belong together: "gpu 0 stream 1"
  std::string title; // what people read
  Source source = Source::Device;
  std::vector<Lane> lanes;
  std::size_t events = 0;
  std::string left_out; // "3 events without a time", or ""
};

// Indices into the classes of kernel_class().
enum class KernelClass : std::uint8_t {
  Gemm,
  Attention,
  Norm,
  Elementwise,
  Reduction,
  Copy,
  Nccl,
  Other
};
inline constexpr std::size_t kKernelClasses = 8;
std::string_view to_string(KernelClass kind);
KernelClass kernel_class_from(std::string_view name);

struct SeriesSummary { // of one TelemetrySeries
  double mean = 0, p5 = 0, p95 = 0;
  std::int64_t spacing_ns = 0; // median between samples
};

class TraceView {
public:
  explicit TraceView(Trace trace);

  const Trace& trace() const { return trace_; }
  const std::vector<StepTiling>& steps() const { return steps_; } // in order of time
  const std::vector<Track>& tracks() const { return tracks_; }
  const std::vector<StageSegment>& segments() const { return segments_; }

  const std::vector<SeriesSummary>& series() const { return series_; } // as Trace::telemetry

  std::int64_t start(EventRef event) const;
  std::int64_t end(EventRef event) const;
  const std::string& name(EventRef event) const;            // full
  const std::string& short_name(EventRef event) const;      // as the timeline labels it
  KernelClass kernel_class(EventRef event) const;           // of device events and operators
  std::optional<Stage> stage_of_span(EventRef event) const; // "forward" … by the span's name
  NameId name_id(EventRef event) const;
  // What chooses an event's hue: the stage of segments and of spans that open one, the class of
  // kernels and operators; kNoTag otherwise.
  static constexpr std::uint8_t kNoTag = 255;
  std::uint8_t tag(EventRef event) const;
  std::optional<NameId> find_name(std::string_view name) const;

  // Events of one source with this name, in order of time.
  struct Occurrences {
    const std::uint32_t* first = nullptr;
    std::size_t count = 0;
  };
  Occurrences occurrences(Source source, NameId name) const;
  // The step whose tiled interval contains the time, or steps().size().
  std::size_t step_at(std::int64_t time) const;
  // Counted step whose stage times are nearest (sum of absolute differences) to the medians of
  // all counted steps, so that its picture is typical. 0 when there is none.
  std::size_t representative() const { return representative_; }
  std::int64_t first_time() const { return first_; }
  std::int64_t last_time() const { return last_; }
  std::size_t events() const { return events_; }

private:
  void add_stage_track();
  void add_host_tracks();
  void add_device_tracks();
  void add_track(std::string role,
                 std::string title,
                 Source source,
                 const std::vector<std::uint32_t>& events);
  void index_names();
  void find_representative();
  void sum_up_telemetry();

  Trace trace_;
  std::vector<StepTiling> steps_;
  std::vector<StageSegment> segments_;
  std::vector<SeriesSummary> series_;
  std::vector<Track> tracks_;
  std::vector<std::string> short_names_; // by NameId
  std::vector<KernelClass> classes_;     // by NameId
  std::vector<std::string> stage_names_; // by Stage
  std::unordered_map<std::string_view, NameId> ids_;
  struct ByName {
    std::vector<std::uint32_t> offsets, events;
  };
  std::vector<ByName> by_name_; // by Source; empty for stages
  std::size_t representative_ = 0, events_ = 0;
  std::int64_t first_ = 0, last_ = 0;
};

} // namespace assay
