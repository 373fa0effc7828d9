// Tracer: what records a traced launch. The launch calls it at the borders of visits and units;
// nothing else of the worker depends on which tracer runs.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/worker/launch/visit.h"
#include "profilers/trace/trace_session.h"

namespace assay::worker {

struct TracerOptions {
  std::vector<std::string> paths; // one trace file per variant
  bool cuda = false;
  CollectSet collect;
  std::string gpu_uuid;
};

class Tracer : public UnitObserver {
public:
  // Between these, unit() belongs to `variant` and everything is recorded. end_visit() comes after
  // the device is drained.
  virtual void begin_visit(std::size_t variant, int round, bool warmup) = 0;
  virtual void end_visit() = 0;
  // Written into every file beside the rows.
  virtual void describe(std::size_t variant, const std::string& key, const std::string& value) = 0;
  // Ends tracing for good; nothing of it stays in the process. Metrics of the "bye" message. Throws
  // Failure if a trace could not be written.
  virtual nlohmann::json finish() = 0;
};

// Assay's own collectors (profilers/trace/trace_session.h).
std::unique_ptr<Tracer> make_tracer(const TracerOptions& options);
// LibTorch's Kineto with the same visits: what people use today, for comparison in benchmarks. It
// keeps no file; finish() reports counts, and how long its own Chrome export takes.
std::unique_ptr<Tracer> make_kineto_tracer(const TracerOptions& options);

} // namespace assay::worker
