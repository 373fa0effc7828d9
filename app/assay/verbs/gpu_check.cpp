#include "app/assay/verbs/gpu_check.h"

#include <algorithm>
#include <filesystem>

#include "app/assay/programs.h"
#include "core/ledger/ledger.h"
#include "core/ledger/ledger_schema.h"
#include "core/ledger/stored_config.h"
#include "core/result.h"
#include "experiments/evidence/owed/plan_state.h"
#include "model/config/no_gpu.h"

namespace assay::cli {

namespace {

bool wants_gpu(const Plan& plan, const std::vector<std::string>& cells) {
  return std::ranges::any_of(plan.ledger.cells, [&](const CellRow& cell) {
    return (cells.empty() || std::ranges::find(cells, cell.name) != cells.end()) &&
           stored_config(cell.config_json).at("device") == "cuda";
  });
}

// Results of another plan, or that cannot be read, are refused by who opens them.
bool is_complete(const Plan& plan, const std::string& directory) {
  const auto ledger = std::filesystem::path(directory) / ledger_schema::kFileName;
  if (std::error_code ignored; !std::filesystem::exists(ledger, ignored)) return false;
  const Result<LedgerData> there = read_ledger(directory);
  return !there || there->spec.hash != plan.ledger.spec.hash || missing_launches(*there).empty();
}

} // namespace

void require_gpu(const Plan& plan, const GpuNeed& need) {
  if (!wants_gpu(plan, need.cells) || (!need.anew && is_complete(plan, need.directory))) return;
  if (worker_identity().at("gpu").get<std::string>().empty()) bad_input("{}", kNoUsableGpu);
}

} // namespace assay::cli
