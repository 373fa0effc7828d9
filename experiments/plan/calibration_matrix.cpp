#include "experiments/plan/calibration_matrix.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "core/ledger/stored_config.h"
#include "core/text.h"
#include "experiments/analysis/calibration.h"
#include "experiments/plan/fresh_matrix.h"
#include "model/config/optimization.h"

namespace assay {

namespace {

constexpr const char* kPlantedRow = "planted_calibration";
constexpr int kCalibrationLaunches = 6;
// Of a variant in a launch, at least: what the planted wait did is known after 31 (kSettledSteps).
constexpr int kFewestSteps = 40;

std::string planted_cell(CellRow cell, const char* name, const char* level) {
  cell.rounds =
      std::max(cell.rounds, (kFewestSteps + cell.visit_steps - 1) / std::max(1, cell.visit_steps));
  return fresh_cell(cell, name) +
         fmt::format("optimization = \"{}\"\nlevels = [\"{}\"]\n", kPlantedRow, level);
}

} // namespace

std::string calibration_matrix(const LedgerData& data, const CellRow& cell) {
  nlohmann::json config = stored_config(cell.config_json);
  config["step_graph"] = "off";
  const std::set<std::string> planted =
      switched_keys(*value_or_throw(optimizations().lookup(kPlantedRow)));
  return fmt::format("# `assay calibrate` made this of {}: the reference of {}, with nothing and "
                     "with 2 % planted.\n",
                     printable(data.spec.name),
                     printable(cell.name)) +
         fresh_head(data.spec, cell.name, std::to_string(kCalibrationLaunches)) +
         fresh_base(std::move(config), planted, data.spec) + planted_cell(cell, kAaCell, "spin0") +
         planted_cell(cell, kPlantedCell, "spin2") + "\n[measure]\n" + fresh_end(data.spec, cell);
}

} // namespace assay
