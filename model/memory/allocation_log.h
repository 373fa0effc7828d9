// AllocationLog: every allocation of LibTorch's allocators while it lives, with the span it was
// made in, and what the bytes at the highest moment are.
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/span.h"

namespace assay {

// Part of the bytes in use at one moment. Phases: "weights", "weights16" (kept 16-bit copies),
// "optimizer", "ema", "gradients", "saved_for_backward" (made in a module's forward pass and kept
// beyond it), "forward", "backward" and "update" (freed within them), "ema_swap", "evaluation",
// "ranks" (buckets and gathered weights of several ranks), "other", "earlier" (in use before the
// log began), "graph_rest" (of a CUDA graph's memory, unused at its highest moment). Module:
// "layers.3.gated_deltanet", "embedding", "head", a parameter's name without its last part, or "".
struct MemoryPart {
  std::string phase, module;
  std::int64_t bytes = 0;

  bool operator==(const MemoryPart&) const = default;
};

// Bytes in use over the step that has the highest moment; times from its begin.
struct MemoryCurve {
  struct Stage {
    std::string name; // "forward"
    std::int64_t from_ns = 0, to_ns = 0;
  };
  std::vector<std::int64_t> ns, bytes; // as many; at most kMostPoints
  std::vector<Stage> stages;           // the spans directly below the step's, in order

  static constexpr std::size_t kMostPoints = 512;
};

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// A sink of spans, to be installed by SpanSinkGuard on the thread that trains, and told of
// allocations by PeakMemory. Other threads may allocate meanwhile; spans count on the thread that
// made the log, and a backward pass is known by the forward spans that made its autograd nodes.
class AllocationLog final : public SpanSink {
public:
  explicit AllocationLog(std::int64_t layers) : layers_(layers) {} // of the model

  void begin_at(std::int64_t bytes); // in use on the device already
  // A parameter, whose gradient is looked for before each update.
  void watch(const std::string& name, const at::Tensor& parameter);
  // `bytes` > 0: allocated, < 0: freed. `captured`: into the memory of a CUDA graph.
  void allocated(const void* address, std::int64_t bytes, bool captured);
  void restart(); // the highest moment is looked for from here on

  void begin(const char* name) override;
  void end(const char* name) override;
  void count(const char*, std::int64_t) override {}

  // The parts of the highest moment since restart(), largest first; they sum to its bytes. `owners`
  // name the tensors that last ("model.NAME", "optimizer.…", "ema.…", "weights16.…").
  // `graph_bytes`: of the memory of CUDA graphs, whose parts are those of the highest moment while
  // one was captured; replays allocate nothing.
  std::vector<MemoryPart> parts(const NamedTensors& owners, std::int64_t graph_bytes) const;
  // Where that moment is, as "backward/layers.1.gated_deltanet": what was allocated at it, in a
  // graph's memory if there is one. "" where nothing was allocated since the restart.
  std::string highest_in(std::int64_t graph_bytes) const;

  // Its highest point is the moment of parts(). With `graph_bytes` it is of the step whose kernels
  // were captured, since replays allocate nothing. Empty where the moment is in no step.
  MemoryCurve curve(std::int64_t graph_bytes) const;

private:
  static constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();
  struct Origin {
    std::string phase, module;
    auto operator<=>(const Origin&) const = default;
  };
  struct Allocation {
    const void* address = nullptr;
    std::int64_t bytes = 0;
    Origin origin;
    std::size_t born = 0, died = kNever, module_end = kNever; // by clock_
    bool captured = false;
  };
  struct Moment {
    std::size_t clock = 0;
    std::int64_t bytes = 0;
  };
  struct OuterSpan { // a step, or directly below one
    const char* name;
    std::size_t depth, from, to; // ticks
    std::int64_t from_ns, to_ns;
  };

  bool is_open(std::string_view span) const;
  Origin origin() const;
  std::string module_span() const;
  std::string module() const;
  std::string module_of_backward() const;
  std::string module_of_parameter(const std::string& name) const;
  void mark();
  void tick();
  void close_module();
  void start_layers();
  void find_gradients();
  std::map<std::size_t, std::int64_t> changes(bool captured) const; // bytes by tick
  Moment highest(bool captured, std::size_t from) const;
  std::string phase_at(const Allocation& allocation) const;

  const std::thread::id thread_ = std::this_thread::get_id();
  const std::int64_t layers_;
  mutable std::mutex mutex_;
  NamedTensors parameters_;
  std::vector<Allocation> all_;
  std::unordered_map<const void*, std::size_t> live_; // index into all_
  std::int64_t earlier_bytes_ = 0;
  std::size_t clock_ = 0, restarted_ = 0; // a tick an allocation, free or end of a module
  std::vector<std::pair<std::size_t, std::int64_t>> earlier_freed_; // clock, bytes
  std::vector<std::int64_t> tick_ns_;                               // of tick 1, 2 …
  std::vector<const char*> open_;                                   // spans of thread_
  std::vector<OuterSpan> outer_, outer_open_;                       // ended, and open
  std::int64_t layers_done_ = 0;
  std::map<std::string, std::string> mixers_; // by layer: the span of its first module
  bool seen_module_ = false;                  // in this forward pass
  std::vector<std::size_t> in_module_;        // allocations of the module that is open
  std::vector<std::pair<std::uint64_t, std::string>> marks_; // autograd's number, module from it on
};

} // namespace assay
