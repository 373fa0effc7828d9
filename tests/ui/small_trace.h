// Traces of a small GPU-like training, for tests of the viewer: stages, kernels with their
// launches, operators, telemetry with a gap. B computes attention in one kernel instead of three.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/ledger/ledger.h"
#include "core/trace/trace.h"
#include "core/trace/trace_file.h"

namespace assay {

struct SmallTrace {
  int steps = 12; // the first two are warm-up
  int layers = 6;
  bool fused = false; // B
  bool failed_audit = false;
  std::string variant = "mask_dense";
  std::vector<double> slower_us; // by step: its optimizer takes this much longer
};

inline constexpr const char* kFusedKernel =
    "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 64, 4> >(Flash_fwd_params)";

// Writes the trace through the collectors' own writer.
void write_small_trace(const std::string& path, const SmallTrace& what);

// A writer's output of `events` kernels in 20 steps, for measurements.
void write_large_trace(const std::string& path, std::int64_t events, const std::string& variant);

// `data` with a complete traced launch of its first cell.
LedgerData with_traced_launch(LedgerData data);

// A results directory: finished plan, traces of its first cell.
void store_with_traces(const std::string& directory);

} // namespace assay
