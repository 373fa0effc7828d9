// How much disk traces take: an estimate by arithmetic before anything is traced, and what is
// there.
#pragma once

#include <cstdint>
#include <string>

#include "core/ledger/ledger.h"

namespace assay {

inline constexpr int kTracedWarmRounds = 2; // traced and not counted: the tracer's own first use

// Bytes of all trace files of a cell's traced launch, every rank; 0 where the cell is not traced.
// From the kernel launches of a step, so within a factor of two or three.
double estimated_trace_bytes(const LedgerData& plan, const CellRow& cell);

// Of the finished trace files in the results directory.
double trace_bytes_in(const std::string& directory);

} // namespace assay
