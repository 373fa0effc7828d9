#include "core/ledger/old_events.h"

#include <algorithm>
#include <string_view>

namespace assay {

namespace {

bool says(std::string_view text, std::string_view words) {
  return text.find(words) != std::string_view::npos;
}

// The engine's form is "NAME: …", the worker's "loss of variant 'NAME' is nan …".
bool names(const EventRow& event, const VariantRow& variant) {
  return event.detail.starts_with(variant.name + ": ") ||
         says(event.detail, "'" + variant.name + "'");
}

std::string cause_of(const EventRow& event) {
  for (const char* lost : {" is nan", " is -nan", " is inf", " is -inf"})
    if (says(event.detail, lost)) return kCauseLoss;
  return says(event.detail, "out of memory") ? kCauseMemory : "";
}

} // namespace

void name_retired_variants(LedgerData& data) {
  for (EventRow& event : data.events) {
    if (event.kind != "retired") continue;
    event.cause = cause_of(event);
    const auto launch = std::find_if(data.launches.begin(),
                                     data.launches.end(),
                                     [&](const LaunchRow& row) { return row.id == event.launch; });
    if (launch == data.launches.end()) continue;
    for (const VariantRow& variant : data.variants)
      if (event.variant == 0 && variant.cell == launch->cell && names(event, variant))
        event.variant = variant.id;
  }
}

} // namespace assay
