#include "profilers/trace/session_writer.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

namespace assay {

namespace {

constexpr std::chrono::milliseconds kWriterPeriod{5};

std::int64_t own_global_tid() {
  return global_tid(::getpid(), static_cast<std::int64_t>(::syscall(SYS_gettid)));
}

} // namespace

ThreadEvents& SessionShared::own_thread() {
  thread_local std::uint64_t own_generation = 0;
  thread_local ThreadEvents* own = nullptr;
  if (own_generation != generation) {
    const std::lock_guard lock(threads_mutex);
    own = &threads.emplace_back(own_global_tid(), options.ring_events);
    own_generation = generation;
  }
  return *own;
}

void SessionShared::push(const RawHostEvent& event) {
  if (recording.load(std::memory_order_relaxed)) own_thread().ring.push(event);
}

NameId SessionWriter::name(TraceWriter& file, Output& output, const char* text) {
  const auto found = output.names.find(text);
  if (found != output.names.end()) return found->second;
  return output.names.emplace(text, file.intern(text)).first->second;
}

void SessionWriter::take_events(TraceWriter& file, Output& output, bool visit_over) {
  const std::lock_guard lock(shared.threads_mutex);
  for (ThreadEvents& source : shared.threads) {
    source.ring.drain([&](const RawHostEvent& event) {
      const bool span =
          event.kind == HostEventKind::SpanBegin || event.kind == HostEventKind::SpanEnd;
      auto& open = span ? source.open_spans : source.open_operators;
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
        batch.ranges.push_back({begin.time, event.time, 59, source.global_tid, id, output.domain});
      else
        batch.operators.push_back({begin.time,
                                   event.time,
                                   source.global_tid,
                                   id,
                                   begin.sequence,
                                   begin.forward_thread,
                                   begin.backward});
    });
    if (!visit_over) continue;
    output.inputs.open_ranges +=
        static_cast<std::int64_t>(source.open_spans.size() + source.open_operators.size());
    source.open_spans.clear();
    source.open_operators.clear();
  }
}

void SessionWriter::take_telemetry(TraceWriter& file, Output& output) {
  if (output.metrics.empty())
    for (const TelemetryMetric& metric : shared.telemetry->metrics())
      output.metrics.push_back(file.intern(metric.name));
  for (const TelemetrySampler::Sample& sample : shared.telemetry->take())
    batch.telemetry.push_back({sample.time, output.metrics[sample.meter], sample.value});
}

// Takes everything that is there and stores it in the current variant's file.
void SessionWriter::write_pending(bool visit_over) {
  std::size_t current = 0;
  {
    const std::lock_guard lock(shared.mutex);
    current = shared.variant;
    batch.steps.swap(shared.steps);
  }
  TraceWriter& file = *shared.files[current];
  Output& output = outputs[current];
  take_events(file, output, visit_over);
  if (shared.device) shared.device->drain(file, batch);
  take_telemetry(file, output);
  output.audit.see(batch);
  file.append(batch);
  batch.clear();
  if (!visit_over) return;
  output.audit.end_visit();
  if (shared.device) shared.device->forget_names(); // the next visit may go into another file
}

void SessionWriter::run() {
  std::unique_lock lock(shared.mutex);
  while (!shared.stop) {
    shared.wake.wait_for(lock, kWriterPeriod, [this] { return shared.stop || shared.visit_ends; });
    const bool over = shared.visit_ends;
    if (!over && !shared.recording) continue;
    lock.unlock();
    std::exception_ptr caught;
    try {
      write_pending(over);
    } catch (...) {
      caught = std::current_exception();
    }
    lock.lock();
    if (caught && !shared.failure) shared.failure = caught;
    if (shared.failure) batch.clear(); // the training continues; finish() returns it
    if (over) {
      shared.visit_ends = false;
      shared.done.notify_all();
    }
  }
}

} // namespace assay
