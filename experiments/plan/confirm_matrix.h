// The matrix with which `assay confirm` measures one comparison again.
#pragma once

#include <cstdint>
#include <string>

#include "core/ledger/ledger.h"

namespace assay {

// One cell of variant `a` against variant `b`, both of one cell of `data`: the same configurations,
// rounds and launches, another order of visits, and other weights and documents (the training key
// `seed`). No claims, traces or loss launches. Relative paths count from where `data` was measured.
std::string confirm_matrix(const LedgerData& data, std::int64_t a, std::int64_t b);

} // namespace assay
