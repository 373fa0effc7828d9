#include "profilers/trace/trace_session.h"

#include <time.h>

#include <algorithm>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "core/trace/trace_file.h"
#include "profilers/trace/device_collector.h"
#include "profilers/trace/nvtx_range.h"
#include "profilers/trace/session_writer.h"
#include "profilers/trace/telemetry_sampler.h"

namespace assay {

namespace {

constexpr std::int64_t kClockStepNs = 1'000'000; // NTP slews by less between two looks

std::int64_t clock_ns(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
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

} // namespace

std::int64_t trace_now() {
  return clock_ns(CLOCK_REALTIME);
}

namespace {

// The thread that calls begin_visit … end_visit alone.
struct Caller {
  int round = 0;
  bool warmup = false;
  int position = 0;
  std::vector<std::int64_t> next_step; // by variant
  std::int64_t clock_offset = 0;       // REALTIME - MONOTONIC at the last look
  std::int64_t clock_drift_ns = 0, clock_steps = 0;

  void watch_clock(const TraceOptions& options);
};

void Caller::watch_clock(const TraceOptions& options) {
  const std::int64_t offset = options.clock_offset
                                  ? options.clock_offset()
                                  : clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC);
  if (clock_offset != 0) {
    const std::int64_t moved = std::abs(offset - clock_offset);
    clock_drift_ns = std::max(clock_drift_ns, moved);
    clock_steps += moved > kClockStepNs;
  }
  clock_offset = offset;
}

} // namespace

struct TraceSession::Impl {
  explicit Impl(const TraceOptions& options) : shared(options), writer(shared) {}

  SessionShared shared;
  Caller caller;
  SessionWriter writer;

  void stop_writer();
};

void TraceSession::Impl::stop_writer() {
  {
    const std::lock_guard lock(shared.mutex);
    shared.stop = true;
  }
  shared.wake.notify_all();
  if (writer.thread.joinable()) writer.thread.join();
}

TraceSession::TraceSession() = default;

Result<std::unique_ptr<TraceSession>> TraceSession::start(const TraceOptions& options) {
  static std::atomic<std::uint64_t> generations{0};
  std::unique_ptr<TraceSession> session(new TraceSession);
  session->impl_ = std::make_unique<Impl>(options);
  auto& [shared, caller, writer] = *session->impl_;
  shared.generation = ++generations;
  try {
    const std::int64_t now = trace_now();
    for (const std::string& path : options.paths)
      shared.files.push_back(std::make_unique<TraceWriter>(path, now));
  } catch (const Failure& failure) {
    return Error{failure.what()};
  }
  if (options.cuda) {
    Result<std::unique_ptr<DeviceCollector>> device =
        options.open_device ? options.open_device()
                            : open_device_collector(options.collect, options.memory_limit_bytes);
    if (!device) return device.error();
    shared.device = std::move(*device);
  }
  std::vector<TelemetryMeter> meters;
  if (options.collect.telemetry) meters = host_meters();
  if (options.collect.telemetry && options.cuda)
    for (TelemetryMeter& meter : gpu_meters(options.gpu_uuid)) meters.push_back(std::move(meter));
  shared.telemetry = std::make_unique<TelemetrySampler>(std::move(meters), options.telemetry_hz);
  writer.outputs.resize(options.paths.size());
  caller.next_step.resize(options.paths.size());
  for (std::size_t i = 0; i < shared.files.size(); ++i) {
    shared.files[i]->set_telemetry_metrics(shared.telemetry->metrics());
    writer.outputs[i].domain = shared.files[i]->intern("assay");
    writer.outputs[i].inputs.cuda = options.cuda;
    writer.outputs[i].inputs.overhead_recorded = options.collect.overhead;
  }
  if (shared.device) session->set_info("cupti_version", shared.device->version());
  nvtx_open_domain();
  (void)shared.own_thread();
  caller.watch_clock(shared.options);
  writer.thread = std::thread([&to_run = writer] { to_run.run(); });
  return session;
}

TraceSession::~TraceSession() {
  if (!impl_) return;
  impl_->shared.recording = false;
  impl_->stop_writer();
}

void TraceSession::begin_visit(std::size_t variant, int round, bool warmup) {
  auto& [shared, caller, writer] = *impl_;
  {
    const std::lock_guard lock(shared.mutex);
    shared.variant = variant;
    shared.steps.reserve(256);
  }
  caller.round = round;
  caller.warmup = warmup;
  caller.position = 0;
  (void)shared.telemetry->take(); // what was sampled between visits belongs to none
  if (shared.device) shared.device->enable();
  shared.recording = true;
}

void TraceSession::step(std::int64_t start, std::int64_t end, bool counted, std::int64_t tokens) {
  auto& [shared, caller, writer] = *impl_;
  StepRow row;
  row.start = start;
  row.end = end;
  row.round = caller.round;
  row.position = caller.position++;
  row.counted = counted && !caller.warmup;
  row.tokens = tokens;
  row.global_tid = shared.own_thread().global_tid;
  const std::lock_guard lock(shared.mutex); // the writer locks it for a swap
  row.step = caller.next_step[shared.variant]++;
  shared.steps.push_back(row);
}

void TraceSession::end_visit() {
  auto& [shared, caller, writer] = *impl_;
  shared.recording = false;
  if (shared.device) {
    shared.device->disable();
    shared.device->flush();
  }
  caller.watch_clock(shared.options);
  std::unique_lock lock(shared.mutex);
  shared.visit_ends = true;
  shared.wake.notify_all();
  shared.done.wait(lock, [&handed = shared] { return !handed.visit_ends; });
}

// The cost of a range is inside of it: the first record of a visit makes CUPTI ask for a buffer.
void TraceSession::begin(const char* name) {
  const std::int64_t now = trace_now();
  nvtx_push(name);
  impl_->shared.push({now, name, -1, 0, HostEventKind::SpanBegin, false});
}

void TraceSession::end(const char* name) {
  impl_->shared.push({trace_now(), name, -1, 0, HostEventKind::SpanEnd, false});
  nvtx_pop();
}

void TraceSession::count(const char*, std::int64_t) {}

void TraceSession::operator_begin(std::string_view name,
                                  std::int64_t sequence,
                                  std::int64_t forward_thread,
                                  bool backward) {
  impl_->shared.push({trace_now(),
                      stable_name(name),
                      sequence,
                      forward_thread,
                      HostEventKind::OperatorBegin,
                      backward});
}

void TraceSession::operator_end() {
  impl_->shared.push({trace_now(), nullptr, -1, 0, HostEventKind::OperatorEnd, false});
}

void TraceSession::set_info(const std::string& key, const std::string& value) {
  for (const auto& file : impl_->shared.files) file->set_info(key, value);
}

void TraceSession::set_info(std::size_t variant, const std::string& key, const std::string& value) {
  impl_->shared.files[variant]->set_info(key, value);
}

Result<TraceSession::Summary> TraceSession::finish() {
  auto& [shared, caller, writer] = *impl_;
  shared.recording = false;
  impl_->stop_writer();
  Summary summary;
  try {
    if (shared.failure) std::rethrow_exception(shared.failure);
    std::int64_t lost_events = 0;
    for (const ThreadEvents& thread : shared.threads) lost_events += thread.ring.lost();
    for (std::size_t i = 0; i < shared.files.size(); ++i) {
      TraceWriter& file = *shared.files[i];
      AuditInputs& inputs = writer.outputs[i].inputs;
      if (shared.device) inputs.device = shared.device->counters();
      inputs.lost_host_events = lost_events;
      inputs.clock_drift_ns = static_cast<double>(caller.clock_drift_ns);
      inputs.clock_steps = caller.clock_steps;
      inputs.altered_names = file.altered_names();
      summary.audit.push_back(writer.outputs[i].audit.rows(inputs));
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
    const DeviceCounters device = shared.device ? shared.device->counters() : DeviceCounters{};
    summary.lost = lost_events + device.dropped + device.dropped_buffers;
  } catch (const Failure& failure) {
    return Error{failure.what()};
  }
  shared.device.reset();
  return summary;
}

} // namespace assay
