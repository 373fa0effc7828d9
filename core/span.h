// Span: a named interval of host time, and count(): a named number of events. Both cost two loads
// when no sink listens. The model emits them; the worker installs a sink when it wants proof that a
// code path ran (or, later, a trace).
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

namespace assay {

// Receives spans and counts from any thread. Names are string literals and outlive the sink.
class SpanSink {
public:
  virtual ~SpanSink() = default;
  virtual void begin(const char* name) = 0;
  virtual void end(const char* name) = 0;
  virtual void count(const char* name, std::int64_t amount) = 0;
};

namespace detail {
inline std::atomic<SpanSink*> span_sink{nullptr};
}

// Installs a sink for the life of this object; sinks do not nest.
class SpanSinkGuard {
public:
  explicit SpanSinkGuard(SpanSink& sink) {
    detail::span_sink.store(&sink, std::memory_order_release);
  }
  ~SpanSinkGuard() { detail::span_sink.store(nullptr, std::memory_order_release); }
  SpanSinkGuard(const SpanSinkGuard&) = delete;
  SpanSinkGuard& operator=(const SpanSinkGuard&) = delete;
};

class Span {
public:
  explicit Span(const char* name)
      : sink_(detail::span_sink.load(std::memory_order_acquire)), name_(name) {
    if (sink_ != nullptr) sink_->begin(name_);
  }
  ~Span() {
    if (sink_ != nullptr) sink_->end(name_);
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

private:
  SpanSink* sink_;
  const char* name_;
};

inline void count(const char* name, std::int64_t amount = 1) {
  if (SpanSink* sink = detail::span_sink.load(std::memory_order_acquire)) sink->count(name, amount);
}

} // namespace assay
