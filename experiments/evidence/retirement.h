// RetiredVariant: a variant that left its launch for good, as an event of the ledger records it.
// The one place that reads such events, those of ledgers whose events name the variant in words
// included.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/ledger/ledger.h"

namespace assay {

enum class RetirementCause { Loss, Memory, Other }; // Loss: it became NaN or infinite

struct RetiredVariant {
  std::int64_t launch = 0, variant = 0;
  RetirementCause cause = RetirementCause::Other;
  std::string text; // the worker's words, without the variant's name in front
};

// Nothing for an event of another kind, or one that names none of `variants`.
std::optional<RetiredVariant> retirement_of(const EventRow& event,
                                            const std::vector<const VariantRow*>& variants);

} // namespace assay
