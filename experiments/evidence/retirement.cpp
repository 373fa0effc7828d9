#include "experiments/evidence/retirement.h"

namespace assay {

namespace {

const VariantRow* by_id(std::int64_t id, const std::vector<const VariantRow*>& variants) {
  for (const VariantRow* variant : variants)
    if (variant->id == id) return variant;
  return nullptr;
}

RetirementCause cause_of(const std::string& cause) {
  if (cause == kCauseLoss) return RetirementCause::Loss;
  return cause == kCauseMemory ? RetirementCause::Memory : RetirementCause::Other;
}

} // namespace

std::string retirement_text(const EventRow& event, const VariantRow& variant) {
  const std::string prefix = variant.name + ": ";
  return event.detail.starts_with(prefix) ? event.detail.substr(prefix.size()) : event.detail;
}

std::optional<RetiredVariant> retirement_of(const EventRow& event,
                                            const std::vector<const VariantRow*>& variants) {
  if (event.kind != "retired") return std::nullopt;
  const VariantRow* variant = by_id(event.variant, variants);
  if (variant == nullptr) return std::nullopt;
  return RetiredVariant{
      event.launch, variant->id, cause_of(event.cause), retirement_text(event, *variant)};
}

} // namespace assay
