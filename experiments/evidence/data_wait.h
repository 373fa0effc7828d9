// What a step's loader cost and did (unit "pipeline_step").
#pragma once

#include <optional>

#include "experiments/evidence/cell_view.h"

namespace assay {

// A step: medians over launches of the means over a launch's steps.
struct DataWait {
  double a_ns = 0, b_ns = 0;       // that the training loop waited for its loader
  double a_twice = 0, b_twice = 0; // tokens handed out a second time; 0 in older ledgers
};

// nullopt where one of the two waits was not measured.
std::optional<DataWait> data_wait(const CellView& cell, const VariantRow& a, const VariantRow& b);

} // namespace assay
