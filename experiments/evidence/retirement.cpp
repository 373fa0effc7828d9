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

// Ledgers before schema 5: the engine writes "NAME: words"; the worker quotes the name inside its
// words.
const VariantRow* named_in(const std::string& detail,
                           const std::vector<const VariantRow*>& variants) {
  for (const VariantRow* variant : variants)
    if (detail.starts_with(variant->name + ": ")) return variant;
  for (const VariantRow* variant : variants)
    if (detail.find("'" + variant->name + "'") != std::string::npos) return variant;
  return nullptr;
}

RetirementCause cause_in(const std::string& words) {
  const auto has = [&](const char* what) { return words.find(what) != std::string::npos; };
  if (has(" is nan") || has(" is -nan") || has(" is inf") || has(" is -inf"))
    return RetirementCause::Loss;
  return has("out of memory") ? RetirementCause::Memory : RetirementCause::Other;
}

} // namespace

std::optional<RetiredVariant> retirement_of(const EventRow& event,
                                            const std::vector<const VariantRow*>& variants) {
  if (event.kind != "retired") return std::nullopt;
  const VariantRow* variant =
      event.variant != 0 ? by_id(event.variant, variants) : named_in(event.detail, variants);
  if (variant == nullptr) return std::nullopt;
  const std::string prefix = variant->name + ": ";
  const std::string words =
      event.detail.starts_with(prefix) ? event.detail.substr(prefix.size()) : event.detail;
  const bool in_fields = event.variant != 0;
  return RetiredVariant{
      event.launch, variant->id, in_fields ? cause_of(event.cause) : cause_in(words), words};
}

} // namespace assay
