#include "profilers/trace/trace_session.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>

#include "core/trace/trace_file.h"
#include "profilers/trace/device_collector.h"
#include "profilers/trace/event_ring.h"
#include "profilers/trace/nvtx_range.h"
#include "profilers/trace/telemetry_sampler.h"
#include "profilers/trace/trace_audit.h"

namespace assay {

namespace {

constexpr std::chrono::milliseconds kWriterPeriod{5};
constexpr std::int64_t kClockStepNs = 1'000'000; // NTP slews by less between two looks

std::int64_t clock_ns(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

std::int64_t own_global_tid() {
  return global_tid(::getpid(), static_cast<std::int64_t>(::syscall(SYS_gettid)));
}

// Names that arrive as text get one address for the life of the process, so that events carry a
// pointer. A lookup of a known name does not allocate.
const char* stable_name(std::string_view text) {
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view value) const {
      return std::hash<std::string_view>()(value);
    }
  };
  static std::mutex mutex;
  static std::deque<std::string> storage;
  thread_local std::unordered_map<std::string, const char*, Hash, std::equal_to<>> known;
  if (const auto found = known.find(text); found != known.end()) return found->second;
  const std::lock_guard lock(mutex);
  storage.emplace_back(text);
  return known.emplace(std::string(text), storage.back().c_str()).first->second;
}

// One thread that emits events: its ring, and the writer's view of its open ranges.
struct ThreadEvents {
  ThreadEvents(std::int64_t id, std::size_t capacity) : global_tid(id), ring(capacity) {}
  std::int64_t global_tid;
  EventRing ring;
  std::vector<RawHostEvent> open_spans, open_operators; // the writer's
};

} // namespace

std::int64_t trace_now() {
  return clock_ns(CLOCK_REALTIME);
}

struct TraceSession::Impl {
  explicit Impl(const TraceOptions& o) : options(o) {}

  // --- shared ---
  TraceOptions options;
  std::uint64_t generation = 0;
  std::unique_ptr<DeviceCollector> device;
  std::unique_ptr<TelemetrySampler> telemetry;
  std::vector<std::unique_ptr<TraceWriter>> writers;
  std::atomic<bool> recording{false};
  std::mutex threads_mutex; // registration of a thread, and the writer's list
  std::deque<ThreadEvents> threads;

  // --- the caller of begin_visit … end_visit ---
  int round = 0;
  bool warmup = false;
  int position = 0;
  std::vector<std::int64_t> next_step; // by variant
  std::int64_t clock_offset = 0;       // REALTIME - MONOTONIC at the last look

  // --- caller and writer ---
  std::mutex mutex;
  std::condition_variable wake, done;
  bool stop = false, visit_ends = false;
  std::size_t variant = 0;
  std::vector<StepRow> steps;
  std::exception_ptr failure;

  // --- the writer ---
  struct Output {
    TraceAudit audit;
    AuditInputs inputs;
    std::unordered_map<const char*, NameId> names;
    std::vector<NameId> metrics;
    NameId domain = 0;
  };
  std::vector<Output> outputs;
  TraceBatch batch;
  std::thread writer;

  ThreadEvents& own_thread();
  void push(const RawHostEvent& event);
  void run_writer();
  void write_pending(bool visit_over);
  void take_events(TraceWriter& file, Output& output, bool visit_over);
  void take_telemetry(TraceWriter& file, Output& output);
  NameId name(TraceWriter& file, Output& output, const char* text);
  void watch_clock();
  void stop_writer();
};

ThreadEvents& TraceSession::Impl::own_thread() {
  thread_local std::uint64_t own_generation = 0;
  thread_local ThreadEvents* own = nullptr;
  if (own_generation != generation) {
    const std::lock_guard lock(threads_mutex);
    own = &threads.emplace_back(own_global_tid(), options.ring_events);
    own_generation = generation;
  }
  return *own;
}

void TraceSession::Impl::push(const RawHostEvent& event) {
  if (recording.load(std::memory_order_relaxed)) own_thread().ring.push(event);
}

NameId TraceSession::Impl::name(TraceWriter& file, Output& output, const char* text) {
  const auto found = output.names.find(text);
  if (found != output.names.end()) return found->second;
  return output.names.emplace(text, file.intern(text)).first->second;
}

void TraceSession::Impl::take_events(TraceWriter& file, Output& output, bool visit_over) {
  const std::lock_guard lock(threads_mutex);
  for (ThreadEvents& thread : threads) {
    thread.ring.drain([&](const RawHostEvent& event) {
      const bool span =
          event.kind == HostEventKind::SpanBegin || event.kind == HostEventKind::SpanEnd;
      auto& open = span ? thread.open_spans : thread.open_operators;
      if (event.kind == HostEventKind::SpanBegin || event.kind == HostEventKind::OperatorBegin) {
        open.push_back(event);
        return;
      }
      if (open.empty()) {
        ++output.inputs.stray_ends;
        return;
      }
      const RawHostEvent begin = open.back();
      open.pop_back();
      const NameId id = name(file, output, begin.name);
      if (span)
        batch.ranges.push_back({begin.time, event.time, 59, thread.global_tid, id, output.domain});
      else
        batch.operators.push_back({begin.time,
                                   event.time,
                                   thread.global_tid,
                                   id,
                                   begin.sequence,
                                   begin.forward_thread,
                                   begin.backward});
    });
    if (!visit_over) continue;
    output.inputs.open_ranges +=
        static_cast<std::int64_t>(thread.open_spans.size() + thread.open_operators.size());
    thread.open_spans.clear();
    thread.open_operators.clear();
  }
}

void TraceSession::Impl::take_telemetry(TraceWriter& file, Output& output) {
  if (output.metrics.empty())
    for (const TelemetryMetric& metric : telemetry->metrics())
      output.metrics.push_back(file.intern(metric.name));
  for (const TelemetrySampler::Sample& sample : telemetry->take())
    batch.telemetry.push_back({sample.time, output.metrics[sample.meter], sample.value});
}

// Takes everything that is there and stores it in the current variant's file.
void TraceSession::Impl::write_pending(bool visit_over) {
  std::size_t current = 0;
  {
    const std::lock_guard lock(mutex);
    current = variant;
    batch.steps.swap(steps);
  }
  TraceWriter& file = *writers[current];
  Output& output = outputs[current];
  take_events(file, output, visit_over);
  if (device) device->drain(file, batch);
  take_telemetry(file, output);
  output.audit.see(batch);
  file.append(batch);
  batch.clear();
  if (!visit_over) return;
  output.audit.end_visit();
  if (device) device->forget_names(); // the next visit may go into another file
}

void TraceSession::Impl::run_writer() {
  std::unique_lock lock(mutex);
  while (!stop) {
    wake.wait_for(lock, kWriterPeriod, [this] { return stop || visit_ends; });
    const bool over = visit_ends;
    if (!over && !recording) continue;
    lock.unlock();
    std::exception_ptr caught;
    try {
      write_pending(over);
    } catch (...) {
      caught = std::current_exception();
    }
    lock.lock();
    if (caught && !failure) failure = caught;
    if (failure) batch.clear(); // the training continues; finish() returns it
    if (over) {
      visit_ends = false;
      done.notify_all();
    }
  }
}

void TraceSession::Impl::watch_clock() {
  const std::int64_t offset = options.clock_offset
                                  ? options.clock_offset()
                                  : clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC);
  if (clock_offset != 0) {
    const std::int64_t moved = std::abs(offset - clock_offset);
    for (Output& output : outputs) {
      output.inputs.clock_drift_ns =
          std::max(output.inputs.clock_drift_ns, static_cast<double>(moved));
      output.inputs.clock_steps += moved > kClockStepNs;
    }
  }
  clock_offset = offset;
}

void TraceSession::Impl::stop_writer() {
  {
    const std::lock_guard lock(mutex);
    stop = true;
  }
  wake.notify_all();
  if (writer.joinable()) writer.join();
}

TraceSession::TraceSession() = default;

Result<std::unique_ptr<TraceSession>> TraceSession::start(const TraceOptions& options) {
  static std::atomic<std::uint64_t> generations{0};
  std::unique_ptr<TraceSession> session(new TraceSession);
  session->impl_ = std::make_unique<Impl>(options);
  Impl& impl = *session->impl_;
  impl.generation = ++generations;
  try {
    const std::int64_t now = trace_now();
    for (const std::string& path : options.paths)
      impl.writers.push_back(std::make_unique<TraceWriter>(path, now));
  } catch (const Failure& failure) {
    return Error{failure.what()};
  }
  if (options.cuda) {
    Result<std::unique_ptr<DeviceCollector>> device =
        options.open_device ? options.open_device()
                            : open_device_collector(options.collect, options.memory_limit_bytes);
    if (!device) return device.error();
    impl.device = std::move(*device);
  }
  std::vector<TelemetryMeter> meters;
  if (options.collect.telemetry) meters = host_meters();
  if (options.collect.telemetry && options.cuda)
    for (TelemetryMeter& meter : gpu_meters(options.gpu_uuid)) meters.push_back(std::move(meter));
  impl.telemetry = std::make_unique<TelemetrySampler>(std::move(meters), options.telemetry_hz);
  impl.outputs.resize(options.paths.size());
  impl.next_step.resize(options.paths.size());
  for (std::size_t i = 0; i < impl.writers.size(); ++i) {
    impl.writers[i]->set_telemetry_metrics(impl.telemetry->metrics());
    impl.outputs[i].domain = impl.writers[i]->intern("assay");
    impl.outputs[i].inputs.cuda = options.cuda;
    impl.outputs[i].inputs.overhead_recorded = options.collect.overhead;
  }
  if (impl.device) session->set_info("cupti_version", impl.device->version());
  nvtx_open_domain();
  (void)impl.own_thread();
  impl.watch_clock();
  impl.writer = std::thread([&impl] { impl.run_writer(); });
  return session;
}

TraceSession::~TraceSession() {
  if (!impl_) return;
  impl_->recording = false;
  impl_->stop_writer();
}

void TraceSession::begin_visit(std::size_t variant, int round, bool warmup) {
  Impl& impl = *impl_;
  {
    const std::lock_guard lock(impl.mutex);
    impl.variant = variant;
    impl.steps.reserve(256);
  }
  impl.round = round;
  impl.warmup = warmup;
  impl.position = 0;
  (void)impl.telemetry->take(); // what was sampled between visits belongs to none
  if (impl.device) impl.device->enable();
  impl.recording = true;
}

void TraceSession::step(std::int64_t start, std::int64_t end, bool counted, std::int64_t tokens) {
  Impl& impl = *impl_;
  StepRow row;
  row.start = start;
  row.end = end;
  row.round = impl.round;
  row.position = impl.position++;
  row.counted = counted && !impl.warmup;
  row.tokens = tokens;
  row.global_tid = impl.own_thread().global_tid;
  const std::lock_guard lock(impl.mutex); // the writer locks it for a swap
  row.step = impl.next_step[impl.variant]++;
  impl.steps.push_back(row);
}

void TraceSession::end_visit() {
  Impl& impl = *impl_;
  impl.recording = false;
  if (impl.device) {
    impl.device->disable();
    impl.device->flush();
  }
  impl.watch_clock();
  std::unique_lock lock(impl.mutex);
  impl.visit_ends = true;
  impl.wake.notify_all();
  impl.done.wait(lock, [&] { return !impl.visit_ends; });
}

// The cost of a range is inside of it: the first record of a visit makes CUPTI ask for a buffer.
void TraceSession::begin(const char* name) {
  const std::int64_t now = trace_now();
  nvtx_push(name);
  impl_->push({now, name, -1, 0, HostEventKind::SpanBegin, false});
}

void TraceSession::end(const char* name) {
  impl_->push({trace_now(), name, -1, 0, HostEventKind::SpanEnd, false});
  nvtx_pop();
}

void TraceSession::count(const char*, std::int64_t) {}

void TraceSession::operator_begin(std::string_view name,
                                  std::int64_t sequence,
                                  std::int64_t forward_thread,
                                  bool backward) {
  impl_->push({trace_now(),
               stable_name(name),
               sequence,
               forward_thread,
               HostEventKind::OperatorBegin,
               backward});
}

void TraceSession::operator_end() {
  impl_->push({trace_now(), nullptr, -1, 0, HostEventKind::OperatorEnd, false});
}

void TraceSession::set_info(const std::string& key, const std::string& value) {
  for (const auto& writer : impl_->writers) writer->set_info(key, value);
}

void TraceSession::set_info(std::size_t variant, const std::string& key, const std::string& value) {
  impl_->writers[variant]->set_info(key, value);
}

Result<TraceSession::Summary> TraceSession::finish() {
  Impl& impl = *impl_;
  impl.recording = false;
  impl.stop_writer();
  Summary summary;
  try {
    if (impl.failure) std::rethrow_exception(impl.failure);
    std::int64_t lost_events = 0;
    for (const ThreadEvents& thread : impl.threads) lost_events += thread.ring.lost();
    for (std::size_t i = 0; i < impl.writers.size(); ++i) {
      TraceWriter& file = *impl.writers[i];
      AuditInputs& inputs = impl.outputs[i].inputs;
      if (impl.device) inputs.device = impl.device->counters();
      inputs.lost_host_events = lost_events;
      inputs.altered_names = file.altered_names();
      summary.audit.push_back(impl.outputs[i].audit.rows(inputs));
      file.add_audit(summary.audit.back());
      for (const AuditRow& row : summary.audit.back())
        if (!row.passed)
          file.add_diagnostic(
              trace_now(),
              2,
              fmt::format(
                  "audit: {} is {} (limit {}): {}", row.check, row.value, row.limit, row.detail));
      summary.rows += file.rows();
      file.finish();
    }
    const DeviceCounters device = impl.device ? impl.device->counters() : DeviceCounters{};
    summary.lost = lost_events + device.dropped + device.dropped_buffers;
  } catch (const Failure& failure) {
    return Error{failure.what()};
  }
  impl.device.reset();
  return summary;
}

} // namespace assay
