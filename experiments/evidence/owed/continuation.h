// Whether `assay run` continues results that are there: asked before a message advises it.
#pragma once

#include <string>

#include "core/ledger/ledger.h"

namespace assay {

// The build that measured the launches of a ledger, or "".
std::string measured_build(const LedgerData& data);

// Why no run of this build of Assay continues the results, in a short phrase; "" where one does.
std::string why_not_continued(const SpecRow& spec);
// The same, and for the worker that would measure: launches of two builds are never mixed.
// `worker_build` is "" where it is not known.
std::string why_not_continued(const LedgerData& data, const std::string& worker_build);

} // namespace assay
