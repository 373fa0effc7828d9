// How long the training loop waited for its loader (unit "pipeline_step").
#pragma once

#include <optional>

#include "experiments/evidence/cell_view.h"

namespace assay {

struct DataWait {
  double a_ns = 0, b_ns = 0; // a step: median over launches of the mean over a launch's steps
};

// nullopt where one of the two was not measured.
std::optional<DataWait> data_wait(const CellView& cell, const VariantRow& a, const VariantRow& b);

} // namespace assay
