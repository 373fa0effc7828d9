// A synthetic trace of one variant: steps with spans, operators, CUDA calls, kernels, copies,
// waits, telemetry and an audit, at known durations. For `assay demo`, tests and benchmarks; a pure
// function of its plan.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/trace/trace.h"

namespace assay {

class TraceWriter;

struct DemoKernel {
  std::string op, name, short_name; // the LibTorch operator, and the kernel it starts
  double us = 0;                    // a step of the reference, without noise
};

struct DemoStage {
  std::string span;       // "forward", "backward" …: the spans that attribution reads
  std::string inner_span; // around the operators of the stage, or ""
  std::vector<DemoKernel> kernels;
  int repeat = 1; // layers
};

struct DemoTrace {
  std::string path, cell, variant, optimization, unit = "train_step";
  std::int64_t launch = 0;
  bool gpu = true; // false: the operators themselves take the time
  std::vector<DemoStage> stages;
  double data_wait_us = 0, copy_us = 0; // before the stages
  int warm_rounds = 2, rounds = 10;     // traced
  int visit_steps = 2, discard_steps = 1;
  int place = 0, places = 2; // of the variant in its round: variants take turns
  double noise = 0.004;      // sd of a step's log time; that of a round is shared by variants
  std::uint64_t seed = 1;
  std::uint32_t process = 41'200; // numbers a process could have
};

// Writes the file `path`.
void write_demo_trace(const DemoTrace& plan);

} // namespace assay
