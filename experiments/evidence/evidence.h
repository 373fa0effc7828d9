// Evidence about what two variants compute, apart from their times: parity gates, engaged proof,
// operator histograms, retirements. All of it comes from parity launches, visits and events.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/ledger/ledger.h"
#include "experiments/evidence/pairs.h"
#include "experiments/evidence/verdict.h"

namespace assay {

struct Evidence {
  Validity validity = Validity::Ok; // Ok, Incomplete, ParityFailed, NotEngaged or NotApplicable
  std::string reason;               // for a validity other than Ok
  Quality quality = Quality::Unknown;
  std::string quality_reason;
  bool same_work = false; // identical operators and copies on both sides
  std::string same_work_proof;
  std::string engaged; // what showed that each level ran its own code
  std::string retired; // why a variant left a launch for good ("fast: out of memory …"), or ""
  std::vector<GateRow> gates;
};

Evidence gather_evidence(const LedgerData& data,
                         const VisitIndex& visits,
                         const CellRow& cell,
                         const VariantRow& a,
                         const VariantRow& b);

// Whether a retirement's words are those of a loss that became NaN or infinite.
bool tells_of_lost_loss(const std::string& retirement);

// Why the variant was retired from some launch of its cell, or "".
std::string retirement(const LedgerData& data, const VariantRow& variant);

} // namespace assay
