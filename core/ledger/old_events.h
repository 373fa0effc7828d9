// Retirements of ledgers before schema 5 name their variant and cause in words only.
#pragma once

#include "core/ledger/ledger.h"

namespace assay {

// Fills variant and cause of every `retired` event, from the words that those builds wrote.
void name_retired_variants(LedgerData& data);

} // namespace assay
