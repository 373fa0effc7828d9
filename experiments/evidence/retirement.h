// RetiredVariant: a variant that left its launch for good, as an event of the ledger records it.
// The one place that reads such events. Older ledgers, whose events name the variant in words, are
// given its number where they are read (core/ledger/old_events.h).
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

// The event's detail without the variant's name in front.
std::string retirement_text(const EventRow& event, const VariantRow& variant);
// Nothing for an event of another kind, or one that names none of `variants`.
std::optional<RetiredVariant> retirement_of(const EventRow& event,
                                            const std::vector<const VariantRow*>& variants);

} // namespace assay
