// Which variants of a cell are compared, and what was measured of each pair, before any verdict.
#pragma once

#include <optional>
#include <vector>

#include "experiments/analysis/report.h"

namespace assay {

struct VariantPair {
  const VariantRow* a;
  const VariantRow* b;
  bool against_reference;
};

// The variant with this level, the baseline included; nullptr: none.
const VariantRow* variant_of_level(const CellView& cell, const std::string& level);

// Every level against the baseline, then the optimization's further pairs; of a design its pairs
// alone.
std::vector<VariantPair> pairs_to_compare(const CellView& cell);

// Of one verdict and one loss test, when several of a plan share alpha.
struct Levels {
  double judged_alpha = 0.05;
  double loss_alpha = kTostAlpha;
};

// Everything but verdict, explanation and claims.
Comparison compare(const CellView& cell, const VariantPair& variants, const Levels& levels);

// Nothing in a cell without a control.
std::optional<ControlReport> compare_control(const CellView& cell, const Levels& levels);

} // namespace assay
