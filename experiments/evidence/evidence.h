// Evidence about what two variants compute, apart from their times: parity gates, engaged proof,
// operator histograms, retirements. All of it comes from parity launches, visits and events.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/ledger/ledger.h"
#include "experiments/evidence/cell_view.h"
#include "experiments/evidence/reason.h"
#include "experiments/evidence/verdict.h"

namespace assay {

struct Evidence {
  Validity validity = Validity::Ok; // Ok, Incomplete, ParityFailed, NotEngaged or NotApplicable
  Reason reason;                    // for a validity other than Ok
  Quality quality = Quality::Unknown;
  Reason quality_reason;
  bool same_work = false; // identical operators and copies on both sides
  std::string same_work_proof;
  std::string engaged; // what showed that each level ran its own code
  std::string ran;     // kernels that each level counted: "flash_varlen x 8 in slow, …"; "": none
  std::string retired; // why a variant left a launch for good ("fast: out of memory …"), or ""
  std::vector<GateRow> gates;
};

Evidence gather_evidence(const CellView& cell, const VariantRow& a, const VariantRow& b);

} // namespace assay
