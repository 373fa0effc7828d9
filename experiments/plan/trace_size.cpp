#include "experiments/plan/trace_size.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/ledger/stored_config.h"
#include "core/statistics/roofline.h"
#include "core/trace/trace_file.h"
#include "experiments/evidence/owed/plan_state.h"

namespace assay {

namespace {

// Of a trace file, per kernel that arithmetic counts; measured with the matrices of this repository
// (docs/traces.md, "Size"). On a GPU a row of the kernel and one of its API call, on the CPU the
// operators that compute it, at several depths.
constexpr double kBytesPerKernelGpu = 200, kBytesPerKernelCpu = 400;

} // namespace

double estimated_trace_bytes(const LedgerData& plan, const CellRow& cell) {
  if (cell.traced_rounds == 0) return 0;
  const nlohmann::json config = stored_config(cell.config_json);
  const double per_kernel = config.at("device") == "cuda" ? kBytesPerKernelGpu : kBytesPerKernelCpu;
  const double steps =
      static_cast<double>(cell.traced_rounds + kTracedWarmRounds) * cell.visit_steps;
  double kernels = 0;
  for (const VariantRow* variant : variants_of(plan, cell.id))
    if (const StepCostRow* cost = plan.cost(variant->id);
        cost != nullptr && variant->role != Role::Control)
      kernels += static_cast<double>(total_kernels(cost->operations));
  return kernels * steps * per_kernel * config.at("ranks").get<double>();
}

double trace_bytes_in(const std::string& directory) {
  double bytes = 0;
  for (const std::string& path : list_traces(directory)) {
    std::error_code error;
    if (const auto size = std::filesystem::file_size(path, error); !error)
      bytes += static_cast<double>(size);
  }
  return bytes;
}

} // namespace assay
