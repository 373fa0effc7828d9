// EventRing: a bounded queue from one thread (which begins and ends spans and operators) to the
// writer thread. push() neither locks nor allocates; a full ring loses the newest event and counts
// it.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace assay {

enum class HostEventKind : std::uint8_t { SpanBegin, SpanEnd, OperatorBegin, OperatorEnd };

struct RawHostEvent {
  std::int64_t time = 0;      // CLOCK_REALTIME nanoseconds
  const char* name = nullptr; // lives as long as the session; null at ends of operators
  std::int64_t sequence = -1, forward_thread = 0;
  HostEventKind kind = HostEventKind::SpanBegin;
  bool backward = false;
};

class EventRing {
public:
  explicit EventRing(std::size_t capacity) : events_(std::bit_ceil(capacity)) {}

  // The owning thread only.
  void push(const RawHostEvent& event) {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    if (head - cached_tail_ == events_.size()) {
      cached_tail_ = tail_.load(std::memory_order_acquire);
      if (head - cached_tail_ == events_.size()) {
        lost_.fetch_add(1, std::memory_order_relaxed);
        return;
      }
    }
    events_[head & (events_.size() - 1)] = event;
    head_.store(head + 1, std::memory_order_release);
  }

  // The writer thread only: calls take(event) for everything that is there.
  template <class Take> void drain(Take take) {
    const std::uint64_t head = head_.load(std::memory_order_acquire);
    std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    for (; tail != head; ++tail) take(events_[tail & (events_.size() - 1)]);
    tail_.store(tail, std::memory_order_release);
  }

  std::int64_t lost() const { return lost_.load(std::memory_order_relaxed); }

private:
  std::vector<RawHostEvent> events_;
  alignas(64) std::atomic<std::uint64_t> head_{0};
  std::uint64_t cached_tail_ = 0; // the producer's view
  alignas(64) std::atomic<std::uint64_t> tail_{0};
  std::atomic<std::int64_t> lost_{0};
};

} // namespace assay
