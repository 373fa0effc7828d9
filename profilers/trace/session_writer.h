// The thread of a trace session that takes what was recorded and stores it, and what it shares with
// the threads that record.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/trace/trace_file.h"
#include "profilers/trace/device_collector.h"
#include "profilers/trace/event_ring.h"
#include "profilers/trace/telemetry_sampler.h"
#include "profilers/trace/trace_audit.h"
#include "profilers/trace/trace_session.h"

namespace assay {

// One thread that emits events: its ring, and the writer's view of its open ranges.
struct ThreadEvents {
  ThreadEvents(std::int64_t id, std::size_t capacity) : global_tid(id), ring(capacity) {}
  std::int64_t global_tid;
  EventRing ring;
  std::vector<RawHostEvent> open_spans, open_operators; // the writer's
};

// What several threads touch.
struct SessionShared {
  explicit SessionShared(const TraceOptions& o) : options(o) {}

  // Set before the writer starts.
  TraceOptions options;
  std::uint64_t generation = 0;
  std::unique_ptr<DeviceCollector> device;
  std::unique_ptr<TelemetrySampler> telemetry;
  std::vector<std::unique_ptr<TraceWriter>> files; // by variant

  std::atomic<bool> recording{false};
  std::mutex threads_mutex; // guards `threads`: registration of one, and the writer's walk
  std::deque<ThreadEvents> threads;

  std::mutex mutex; // guards what caller and writer hand to each other
  std::condition_variable wake, done;
  bool stop = false, visit_ends = false;
  std::size_t variant = 0;
  std::vector<StepRow> steps;
  std::exception_ptr failure;

  ThreadEvents& own_thread(); // of whichever thread asks
  void push(const RawHostEvent& event);
};

// The writer's thread alone, and the caller before it starts and after it has ended.
struct SessionWriter {
  explicit SessionWriter(SessionShared& s) : shared(s) {}

  struct Output {
    TraceAudit audit;
    AuditInputs inputs;
    std::unordered_map<const char*, NameId> names;
    std::vector<NameId> metrics;
    NameId domain = 0;
  };
  SessionShared& shared;
  std::vector<Output> outputs; // by variant
  TraceBatch batch;
  std::thread thread;

  void run();
  void write_pending(bool visit_over);
  void take_events(TraceWriter& file, Output& output, bool visit_over);
  void take_telemetry(TraceWriter& file, Output& output);
  static NameId name(TraceWriter& file, Output& output, const char* text);
};

} // namespace assay
