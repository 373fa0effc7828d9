// The training configuration that a row of the ledger stores.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/ledger/ledger.h"

namespace assay {

// `config_json` of a cell or a variant. An empty object where a ledger of another maker has none.
nlohmann::json stored_config(const std::string& config_json);

// Whether variants of one cell set their own `threads`. An identity has those of one process.
bool threads_vary(const LedgerData& data);

} // namespace assay
