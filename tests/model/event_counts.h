// EventCounts: what count() counted while a SpanSinkGuard holds it.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "core/span.h"

namespace assay {

class EventCounts : public SpanSink {
public:
  void begin(const char*) override {}
  void end(const char*) override {}
  void count(const char* name, std::int64_t amount) override {
    const std::lock_guard lock(mutex_); // autograd has a thread of its own
    seen[name] += amount;
  }

  std::map<std::string, std::int64_t> seen;

private:
  std::mutex mutex_;
};

} // namespace assay
